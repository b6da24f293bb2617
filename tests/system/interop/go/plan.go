package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// plan is a transactional message and what its listener says; written as for the Java driver
// (Plan.java), with one option more: queue, the number of the queue to send to. This client gives
// up answering checks when one of them panics, so throw is for the execute step only, where the
// panic reaches the caller of send and nobody answers; null is a state that does not exist.
type plan struct {
	sync.Mutex
	name    string
	execute string
	checks  []string
	options map[string]string
	checked int
}

func parsePlans(text string) []*plan {
	var plans []*plan
	for _, one := range strings.Split(text, ";") {
		one = strings.TrimSpace(one)
		if one == "" {
			continue
		}
		head, options, _ := strings.Cut(one, "?")
		name, script, found := strings.Cut(head, ":")
		if !found {
			panic("no plan: " + one)
		}
		p := &plan{name: name, options: map[string]string{}}
		for _, option := range strings.Split(options, "&") {
			if key, value, found := strings.Cut(option, "="); found {
				p.options[key] = value
			}
		}
		var steps []string
		for _, step := range strings.Split(script, ">") {
			word, count, repeated := strings.Cut(step, "*")
			times := 1
			if repeated {
				times, _ = strconv.Atoi(count)
			}
			for i := 0; i < times; i++ {
				steps = append(steps, word)
			}
		}
		p.execute, p.checks = steps[0], steps[1:]
		plans = append(plans, p)
	}
	return plans
}

// slow says whether executing takes long, so that others should not wait for it.
func (p *plan) slow() bool {
	return strings.HasPrefix(p.execute, "await-") || p.execute == "never"
}

func (p *plan) nextCheck() string {
	p.Lock()
	defer p.Unlock()
	p.checked++
	if len(p.checks) == 0 {
		return "unknown"
	}
	return p.checks[min(p.checked, len(p.checks))-1]
}

func (p *plan) complete() bool {
	p.Lock()
	defer p.Unlock()
	return p.checked >= len(p.checks)
}

func (p *plan) option(name, otherwise string) string {
	if value, found := p.options[name]; found {
		return value
	}
	return otherwise
}

func (p *plan) number(name string) int {
	value, err := strconv.Atoi(p.option(name, "0"))
	if err != nil {
		panic(fmt.Sprintf("%s of %s is not a number", name, p.name))
	}
	return value
}

func (p *plan) awaitChecks(count int) {
	for done := false; !done; time.Sleep(10 * time.Millisecond) {
		p.Lock()
		done = p.checked >= count
		p.Unlock()
	}
}

func (p *plan) answer(step string) primitive.LocalTransactionState {
	switch step {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	case "unknown":
		return primitive.UnknowState
	case "null":
		return 0
	case "throw":
		panic("the plan says throw")
	case "never":
		select {}
	}
	words := strings.SplitN(step, "-", 3)
	if len(words) != 3 || words[0] != "await" {
		panic("no step of a plan: " + step)
	}
	count, err := strconv.Atoi(words[1])
	if err != nil {
		panic("no step of a plan: " + step)
	}
	p.awaitChecks(count)
	return p.answer(words[2])
}

func stateName(state primitive.LocalTransactionState) string {
	names := map[primitive.LocalTransactionState]string{
		primitive.CommitMessageState:   "COMMIT_MESSAGE",
		primitive.RollbackMessageState: "ROLLBACK_MESSAGE",
		primitive.UnknowState:          "UNKNOW",
	}
	if name, found := names[state]; found {
		return name
	}
	return fmt.Sprint(int(state))
}

func (p *plan) message(topic string) *primitive.Message {
	var text strings.Builder
	fmt.Fprintf(&text, "half %s \u2603\n", p.name)
	for text.Len() < p.number("size") {
		fmt.Fprintf(&text, "a line that compresses well, number %d\n", text.Len())
	}
	m := primitive.NewMessage(p.option("topic", topic), []byte(text.String()))
	m.Flag = int32(p.number("flag"))
	m.WithTag(p.option("tag", ""))
	if key := p.option("key", p.name); key != "" {
		m.WithKeys([]string{key})
	}
	m.WithProperty("name", p.name)
	m.WithProperty("greeting", "h\u00e9llo w\u00f6rld \u2013 \u4f60\u597d \U0001f680")
	m.WithProperty("queue", p.option("queue", ""))
	m.WithProperty(primitive.PropertyCheckImmunityTimeInSeconds, p.option("immunity", ""))
	return m
}
