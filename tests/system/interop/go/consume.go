package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// seen counts the different messages delivered so far.
type seen struct {
	sync.Mutex
	places     map[string]bool
	deliveries int
	complete   chan struct{}
	want       int
	// deliveries to wait for instead, if not 0
	wantDeliveries int
}

func (s *seen) add(m *primitive.MessageExt) {
	s.Lock()
	defer s.Unlock()
	s.deliveries++
	place := fmt.Sprintf("%s:%d:%d", m.Topic, m.Queue.QueueId, m.QueueOffset)
	fresh := !s.places[place]
	s.places[place] = true
	if s.wantDeliveries > 0 {
		if s.deliveries == s.wantDeliveries {
			close(s.complete)
		}
	} else if fresh && len(s.places) == s.want {
		close(s.complete)
	}
}

func received(m *primitive.MessageExt) object {
	return object{
		"event": "received", "consumer": "go", "topic": m.Topic, "body": encoded(m.Body),
		"tags": m.GetTags(), "keys": m.GetKeys(), "properties": m.GetProperties(), "msgId": m.MsgId,
		"offsetMsgId": m.OffsetMsgId, "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset,
		"commitLogOffset": m.CommitLogOffset, "sysFlag": m.SysFlag, "flag": m.Flag,
		"reconsumeTimes": m.ReconsumeTimes, "bornTimestamp": m.BornTimestamp,
		"storeTimestamp": m.StoreTimestamp, "bornHost": m.BornHost,
		"receivedAt": time.Now().UnixMilli(),
	}
}

// consume takes messages until count different ones came or the time is up, then leaves in good
// order. The client may call the listener for one queue from several goroutines: the lines are not
// in queue order.
//
// instance=NAME makes it known by that name, work=MILLISECONDS lets the listener take so long, and with
// stay=1 it stays until its stdin ends.
func consume(args *arguments) (object, error) {
	return consumeWith(args, consumer.ConsumeRetryLater)
}

// consumeOrderly does the same in order: a queue at a time, message by message.
func consumeOrderly(args *arguments) (object, error) {
	return consumeWith(args, consumer.SuspendCurrentQueueAMoment, consumer.WithConsumerOrder(true))
}

func consumeWith(args *arguments, failed consumer.ConsumeResult, more ...consumer.Option) (object, error) {
	if name := args.get("instance", ""); name != "" {
		more = append(more, consumer.WithInstance(name))
	}
	c, err := rocketmq.NewPushConsumer(append(more,
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{args.get("namesrv", "")})),
		consumer.WithGroupName(args.get("group", "")),
		consumer.WithConsumerModel(consumer.Clustering),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithMaxReconsumeTimes(int32(args.number("max", -1))),
		consumer.WithCredentials(credentials(args)),
	)...)
	if err != nil {
		return nil, err
	}
	got := &seen{places: map[string]bool{}, complete: make(chan struct{}), want: args.number("count", 1)}
	got.wantDeliveries = args.number("deliveries", 0)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: args.get("filter", "*")}
	if sql := args.get("sql", ""); sql != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: sql}
	}
	for _, topic := range strings.Split(args.get("topic", ""), ",") {
		err = c.Subscribe(topic, selector,
			func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
				for _, m := range messages {
					write(received(m))
					got.add(m)
				}
				time.Sleep(time.Duration(args.number("work", 0)) * time.Millisecond)
				if int(messages[0].ReconsumeTimes) < args.number("fail", 0) {
					return failed, nil
				}
				return consumer.ConsumeSuccess, nil
			})
		if err != nil {
			return nil, err
		}
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	if args.number("stay", 0) != 0 {
		_, _ = io.Copy(io.Discard, os.Stdin)
		err = c.Shutdown()
		got.Lock()
		defer got.Unlock()
		return object{"deliveries": got.deliveries}, err
	}
	complete := false
	select {
	case <-got.complete:
		complete = true
	case <-time.After(time.Duration(args.number("timeout", 60)-10) * time.Second):
	}
	if got.wantDeliveries > 0 {
		time.Sleep(2 * time.Second) // for what becomes of the last ones, and for what is too many
	}
	err = c.Shutdown()
	got.Lock()
	defer got.Unlock()
	summary := object{"received": len(got.places), "deliveries": got.deliveries}
	if err == nil && !complete {
		err = fmt.Errorf("%w: received %d of %d", errIncomplete, len(got.places), got.want)
	}
	return summary, err
}
