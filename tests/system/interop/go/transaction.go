package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// transactions sends messages by plans and answers checks, with the lines of the Java driver
// (Transactions.java).
type transactions struct {
	sync.Mutex
	args    *arguments
	plans   map[string]*plan
	client  rocketmq.TransactionProducer
	sent    int
	checked int
}

// chosenQueue takes the queue that the property "queue" names, else one queue after the other.
type chosenQueue struct {
	others producer.QueueSelector
}

func (c chosenQueue) Select(
	m *primitive.Message, queues []*primitive.MessageQueue, lastBroker string,
) *primitive.MessageQueue {
	if number, err := strconv.Atoi(m.GetProperty("queue")); err == nil {
		for _, queue := range queues {
			if queue.QueueId == number {
				return queue
			}
		}
	}
	return c.others.Select(m, queues, lastBroker)
}

func produceTransaction(args *arguments) (object, error) {
	t := &transactions{args: args, plans: map[string]*plan{}}
	return t.run(true)
}

func answerTransaction(args *arguments) (object, error) {
	t := &transactions{args: args, plans: map[string]*plan{}}
	return t.run(false)
}

func (t *transactions) run(send bool) (object, error) {
	client, err := rocketmq.NewTransactionProducer(t,
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{t.args.get("namesrv", "")})),
		producer.WithGroupName(t.args.get("group", "")),
		producer.WithSendMsgTimeout(30*time.Second),
		producer.WithRetry(2),
		producer.WithQueueSelector(chosenQueue{producer.NewRoundRobinQueueSelector()}),
		producer.WithCredentials(credentials(t.args)),
	)
	if err != nil {
		return nil, err
	}
	t.client = client
	if err := client.Start(); err != nil {
		return nil, err
	}
	if !send {
		// The client sends its heartbeat one second after its start, then every 30 s, to brokers
		// that it has had to do with.
		if err := t.follow(parsePlans("here-"+strconv.Itoa(os.Getpid())+":commit"), true); err != nil {
			return nil, err
		}
		write(object{"event": "ready"})
	}
	err = t.follow(parsePlans(t.args.get("plan", "")), send)
	more := bufio.NewScanner(os.Stdin)
	for err == nil && more.Scan() {
		err = t.follow(parsePlans(more.Text()), true)
	}
	if err == nil {
		err = client.Shutdown()
	}
	t.Lock()
	defer t.Unlock()
	return object{"sent": t.sent, "checked": t.checked}, err
}

func (t *transactions) follow(plans []*plan, send bool) error {
	t.Lock()
	for _, p := range plans {
		t.plans[p.name] = p
	}
	t.Unlock()
	results := make(chan error, len(plans))
	waiting := 0
	for _, p := range plans {
		switch {
		case !send:
		case p.slow():
			go func(p *plan) { results <- t.send(p) }(p)
			if p.execute != "never" {
				waiting++
			}
		default:
			if err := t.send(p); err != nil {
				return err
			}
		}
	}
	for ; waiting > 0; waiting-- {
		if err := <-results; err != nil {
			return err
		}
	}
	end := time.Now().Add(time.Duration(t.args.number("timeout", 60)-5) * time.Second)
	for _, p := range plans {
		for ; !p.complete(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("%w: %s was not checked as often as planned", errIncomplete, p.name)
			}
		}
	}
	write(object{"event": "complete"})
	return nil
}

var errPanicked = errors.New("panicked")

// send tells of a message whose execution panicked too: nobody has answered for it.
func (t *transactions) send(p *plan) error {
	m := p.message(t.args.get("topic", ""))
	result, err := t.sendOrRecover(m)
	line := object{
		"event": "sent", "name": p.name, "topic": m.Topic, "body": encoded(m.Body), "tags": m.GetTags(),
		"keys": m.GetKeys(), "properties": m.GetProperties(), "flag": m.Flag,
		"msgId": m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex),
	}
	if err == nil {
		line["offsetMsgId"] = result.OffsetMsgID
		line["transactionId"] = result.TransactionID
		line["brokerName"] = result.MessageQueue.BrokerName
		line["queueId"] = result.MessageQueue.QueueId
		line["queueOffset"] = result.QueueOffset
		line["sendStatus"] = status(result.SendResult)
		line["localState"] = stateName(result.State)
	} else if !errors.Is(err, errPanicked) {
		write(object{"event": "failed", "name": p.name, "error": err.Error()})
		return err
	}
	write(line)
	t.Lock()
	t.sent++
	t.Unlock()
	return nil
}

func (t *transactions) sendOrRecover(m *primitive.Message) (
	result *primitive.TransactionSendResult, err error,
) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%w: %v", errPanicked, problem)
		}
	}()
	return t.client.SendMessageInTransaction(context.Background(), m)
}

func (t *transactions) find(name string) *plan {
	t.Lock()
	defer t.Unlock()
	return t.plans[name]
}

// ExecuteLocalTransaction is called by the client after the half message is stored.
func (t *transactions) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	p := t.find(m.GetProperty("name"))
	write(object{
		"event": "executed", "name": p.name, "topic": m.Topic, "body": encoded(m.Body),
		"tags": m.GetTags(), "keys": m.GetKeys(), "properties": m.GetProperties(),
		"transactionId": m.TransactionId,
	})
	return p.answer(p.execute)
}

// CheckLocalTransaction is called by the client, one check after the other.
func (t *transactions) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	name, step := m.GetProperty("name"), "unknown"
	p := t.find(name)
	if p != nil {
		step = p.nextCheck()
	}
	line := received(m)
	line["event"], line["name"], line["answer"] = "checked", name, step
	line["transactionId"] = m.TransactionId
	write(line)
	t.Lock()
	t.checked++
	t.Unlock()
	if p == nil {
		return primitive.UnknowState
	}
	return p.answer(step)
}
