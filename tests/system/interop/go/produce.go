package main

import (
	"context"
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func startProducer(args *arguments) (rocketmq.Producer, error) {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{args.get("namesrv", "")})),
		producer.WithGroupName(args.get("group", "")),
		producer.WithSendMsgTimeout(30*time.Second),
		producer.WithRetry(args.number("retries", 2)),
		producer.WithCredentials(credentials(args)),
	)
	if err != nil {
		return nil, err
	}
	return p, p.Start()
}

// message number i of a run: tags in turn, one or two keys, properties with awkward characters.
func message(args *arguments, i int) *primitive.Message {
	tags := strings.Split(args.get("tags", "TagA,TagB,TagC"), ",")
	m := primitive.NewMessage(args.get("topic", ""), body(args, i))
	keys := []string{fmt.Sprintf("key-%d", i)}
	if i%5 == 0 {
		keys = append(keys, fmt.Sprintf("second-%d", i))
	}
	m.WithTag(tags[i%len(tags)]).WithKeys(keys)
	if level := args.number("delay", 0); level != 0 {
		m.WithDelayTimeLevel(level)
	}
	if timer := args.get("timer", ""); timer != "" { // milliseconds; this client has no call for it
		m.WithProperty("TIMER_DELAY_MS", timer)
	}
	m.WithProperty("index", strconv.Itoa(i))
	m.WithProperty("greeting", "h\u00e9llo w\u00f6rld \u2013 \u4f60\u597d \U0001f680")
	m.WithProperty("quotes", "say \"hi\" \\ {a:1}\n= next")
	m.WithProperty("\u540d\u524d", "non-ASCII name")
	return m
}

// body is mostly short text; number 1 compresses well, 2 is binary, 3 is one byte, 4 may be large.
func body(args *arguments, i int) []byte {
	large := args.number("large", 0)
	switch {
	case i == 1:
		return []byte(strings.Repeat("a line that compresses well\n", 220))
	case i == 2 || (i == 4 && large > 0):
		noise := make([]byte, 2000)
		if i == 4 {
			noise = make([]byte, large)
		}
		rand.New(rand.NewSource(int64(i))).Read(noise)
		return noise
	case i == 3:
		return []byte("x")
	}
	return []byte(fmt.Sprintf("message %d \u2603 of %s", i, args.get("label", "run")))
}

func content(i int, m *primitive.Message) object {
	return object{
		"event": "sent", "index": i, "topic": m.Topic, "body": encoded(m.Body), "tags": m.GetTags(),
		"keys": m.GetKeys(), "properties": m.GetProperties(),
		"msgId": m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex),
	}
}

func told(i int, m *primitive.Message, result *primitive.SendResult, offsetMsgID string, queueOffset int64) {
	line := content(i, m)
	line["offsetMsgId"] = offsetMsgID
	line["brokerName"] = result.MessageQueue.BrokerName
	line["queueId"] = result.MessageQueue.QueueId
	line["queueOffset"] = queueOffset
	line["sendStatus"] = status(result)
	write(line)
}

func status(result *primitive.SendResult) string {
	names := map[primitive.SendStatus]string{
		primitive.SendOK:                "SEND_OK",
		primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
		primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
		primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	}
	if name, found := names[result.Status]; found {
		return name
	}
	return "UNKNOWN"
}

func produce(args *arguments) (object, error) {
	p, err := startProducer(args)
	if err != nil {
		return nil, err
	}
	count := args.number("count", 30)
	for i := 0; i < count; i++ {
		m := message(args, i)
		result, err := p.SendSync(context.Background(), m)
		if err != nil {
			return object{"sent": i}, err
		}
		told(i, m, result, result.OffsetMsgID, result.QueueOffset)
	}
	return object{"sent": count}, p.Shutdown()
}

func produceBatch(args *arguments) (object, error) {
	p, err := startProducer(args)
	if err != nil {
		return nil, err
	}
	count, size := args.number("count", 30), args.number("size", 10)
	for first := 0; first < count; first += size {
		var batch []*primitive.Message
		for i := first; i < first+size && i < count; i++ {
			batch = append(batch, message(args, i))
		}
		result, err := p.SendSync(context.Background(), batch...)
		if err != nil {
			return object{"sent": first}, err
		}
		ids := strings.Split(result.OffsetMsgID, ",")
		write(object{
			"event": "batch", "size": len(batch), "msgIds": strings.Split(result.MsgID, ","),
			"offsetMsgIds": ids, "queueId": result.MessageQueue.QueueId, "queueOffset": result.QueueOffset,
			"sendStatus": status(result),
		})
		if len(ids) != len(batch) {
			return object{"sent": first}, fmt.Errorf("%d ids for a batch of %d", len(ids), len(batch))
		}
		for k, m := range batch {
			told(first+k, m, result, ids[k], result.QueueOffset+int64(k))
		}
	}
	return object{"sent": count}, p.Shutdown()
}

// produceOneway ends with one answered send, told like those of produce: the broker has read the
// oneway requests before it, for they came on the same connection.
func produceOneway(args *arguments) (object, error) {
	p, err := startProducer(args)
	if err != nil {
		return nil, err
	}
	count := args.number("count", 30)
	for i := 0; i < count; i++ {
		m := message(args, i)
		if err := p.SendOneWay(context.Background(), m); err != nil {
			return object{"sent": i}, err
		}
		write(content(i, m))
	}
	m := message(args, count)
	result, err := p.SendSync(context.Background(), m)
	if err != nil {
		return object{"sent": count}, err
	}
	told(count, m, result, result.OffsetMsgID, result.QueueOffset)
	return object{"sent": count + 1}, p.Shutdown()
}
