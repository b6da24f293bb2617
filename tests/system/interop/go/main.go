// Drives the Go client from a test: one sub-command, JSON lines on stdout, the last of which has
// "done". The same sub-commands, words and lines as the Java driver; exit code 0 means everything
// asked for happened, 2 that messages were missing when the time was up, 1 any other failure,
// 3 that the process as a whole took too long.
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var errIncomplete = errors.New("incomplete")

type object map[string]interface{}

type arguments struct {
	command string
	values  map[string]string
}

func parse(words []string) (*arguments, error) {
	if len(words) == 0 {
		return nil, errors.New("usage: COMMAND namesrv=HOST:PORT topic=T group=G [name=value ...]")
	}
	args := &arguments{command: words[0], values: map[string]string{}}
	for _, word := range words[1:] {
		name, value, found := strings.Cut(word, "=")
		if !found {
			return nil, fmt.Errorf("expected name=value, got %s", word)
		}
		args.values[name] = value
	}
	for _, name := range []string{"namesrv", "topic", "group"} {
		if args.values[name] == "" {
			return nil, fmt.Errorf("%s needs %s=...", args.command, name)
		}
	}
	return args, nil
}

func (a *arguments) get(name, otherwise string) string {
	if value, found := a.values[name]; found {
		return value
	}
	return otherwise
}

func (a *arguments) number(name string, otherwise int) int {
	value, err := strconv.Atoi(a.get(name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(fmt.Sprintf("%s is not a number", name))
	}
	return value
}

// credentials are what requests are signed with: none without the word accessKey.
func credentials(args *arguments) primitive.Credentials {
	return primitive.Credentials{
		AccessKey: args.get("accessKey", ""), SecretKey: args.get("secretKey", ""),
		SecurityToken: args.get("securityToken", ""),
	}
}

var stdout sync.Mutex

func write(line object) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

func encoded(body []byte) string {
	return base64.StdEncoding.EncodeToString(body)
}

func run(words []string) (object, error) {
	args, err := parse(words)
	if err != nil {
		return object{}, err
	}
	seconds := args.number("timeout", 60)
	time.AfterFunc(time.Duration(seconds)*time.Second, func() {
		write(object{"done": false, "error": fmt.Sprintf("not finished after %d s", seconds)})
		os.Exit(3)
	})
	commands := map[string]func(*arguments) (object, error){
		"produce":             produce,
		"produce-batch":       produceBatch,
		"produce-oneway":      produceOneway,
		"produce-transaction": produceTransaction,
		"answer-transaction":  answerTransaction,
		"consume":             consume,
		"consume-orderly":     consumeOrderly,
		"bench-send":          benchSend,
		"bench-consume":       benchConsume,
	}
	command, found := commands[args.command]
	if !found {
		return object{}, fmt.Errorf("unknown command %s", args.command)
	}
	return command(args)
}

func main() {
	rlog.SetLogLevel(os.Getenv("INTEROP_GO_LOG"))
	summary, err := run(os.Args[1:])
	if summary == nil {
		summary = object{}
	}
	code := 0
	if err != nil {
		summary["error"] = err.Error()
		code = 1
		if errors.Is(err, errIncomplete) {
			code = 2
		}
	}
	summary["done"] = err == nil
	write(summary)
	os.Exit(code)
}
