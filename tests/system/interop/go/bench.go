package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// The loads of benches/client/loads.py. The summary has cpuUs: microseconds of CPU of one message.
const (
	benchWarmUp   = 20000
	benchInFlight = 256
)

func cpuMicros() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := usage.Utime.Sec + usage.Stime.Sec
	return float64(seconds)*1e6 + float64(usage.Utime.Usec+usage.Stime.Usec)
}

func benchSend(args *arguments) (object, error) {
	p, err := startProducer(args)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Shutdown() }()
	if err := benchRound(p, args, benchWarmUp); err != nil {
		return nil, err
	}
	count := args.number("count", 0)
	before := cpuMicros()
	if err := benchRound(p, args, count); err != nil {
		return nil, err
	}
	return object{"cpuUs": (cpuMicros() - before) / float64(count)}, nil
}

func benchRound(p rocketmq.Producer, args *arguments, count int) error {
	body := make([]byte, 128)
	for i := range body {
		body[i] = byte(i)
	}
	room := make(chan struct{}, benchInFlight)
	var failed atomic.Int64
	var ended sync.WaitGroup
	ended.Add(count)
	for i := 0; i < count; i++ {
		room <- struct{}{}
		done := func(_ context.Context, _ *primitive.SendResult, err error) {
			if err != nil {
				failed.Add(1)
			}
			<-room
			ended.Done()
		}
		message := primitive.NewMessage(args.get("topic", ""), body)
		if err := p.SendAsync(context.Background(), done, message); err != nil {
			return err
		}
	}
	ended.Wait()
	if failed.Load() > 0 {
		return fmt.Errorf("%d sends failed", failed.Load())
	}
	return nil
}

func benchConsume(args *arguments) (object, error) {
	count := int64(args.number("count", 0))
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{args.get("namesrv", "")})),
		consumer.WithGroupName(args.get("group", "")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	var seen atomic.Int64
	var began float64
	done := make(chan struct{})
	listener := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		now := seen.Add(int64(len(messages)))
		if now == benchWarmUp {
			began = cpuMicros()
		}
		if now == count+benchWarmUp {
			close(done)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(args.get("topic", ""), consumer.MessageSelector{}, listener); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = c.Shutdown() }()
	select {
	case <-done:
	case <-time.After(time.Duration(args.number("timeout", 60)) * time.Second):
		return nil, errIncomplete
	}
	return object{"cpuUs": (cpuMicros() - began) / float64(count)}, nil
}
