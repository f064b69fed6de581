//go:build unix

package handover

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
)

// A Predecessor is the process that hands its sockets to this one. The methods of a nil Predecessor
// do nothing.
type Predecessor struct {
	line    *net.UnixConn
	lines   *bufio.Scanner
	sockets []Socket
	serving bool // this process has received permission to serve

	// History, if it is set before Ready, is called once this process serves, with the result of
	// the predecessor's [Restarter.History].
	History func(history []byte)

	over  chan struct{} // closed when the predecessor has closed the line
	mu    sync.Mutex
	ended map[string]chan struct{} // by service: closed when the predecessor has ended that service; guarded by mu
	gone  bool                     // the predecessor has exited, or closed the line; guarded by mu
}

// FindPredecessor returns the predecessor, or nil if this process was not started to take over from
// another one. Call it once, since it removes the variable that describes the sockets from the
// environment.
func FindPredecessor() (*Predecessor, error) {
	names, ok := os.LookupEnv(handedVar)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(handedVar); err != nil {
		return nil, err
	}
	// Check the line first: if it is not ours, the descriptors after it are not ours either.
	f := os.NewFile(firstHanded-1, "line to the predecessor")
	line, err := fdline.Of(f)
	if err != nil {
		return nil, fmt.Errorf("%s is set, and haul sets it for its own successor only: %w", handedVar, err)
	}
	_ = f.Close()
	p := &Predecessor{line: line, lines: bufio.NewScanner(line), over: make(chan struct{}), ended: map[string]chan struct{}{}}
	for i, name := range strings.Split(names, ",") {
		switch {
		case i == maxHanded:
			_ = p.Close()
			return nil, fmt.Errorf("%s names more than %d sockets", handedVar, maxHanded)
		case name == "":
			continue
		}
		syscall.CloseOnExec(firstHanded + i)
		s, err := parseSocket(name)
		if err != nil {
			p.Fail(err)
			_ = p.Close()
			return nil, err
		}
		s.File = os.NewFile(uintptr(firstHanded+i), s.Service+" of the predecessor")
		p.sockets = append(p.sockets, s)
	}
	return p, nil
}

// Take returns the sockets that the predecessor has handed over. The caller closes them.
func (p *Predecessor) Take() []Socket {
	if p == nil {
		return nil
	}
	all := p.sockets
	p.sockets = nil
	return all
}

// Ready reports that this process can serve, and waits for permission to do so. From then on it
// adds to r the requests that the predecessor passes on.
func (p *Predecessor) Ready(ctx context.Context, r *Requests) error {
	if p == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { p.line.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := say(p.line, wordReady); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the predecessor no longer waits for this process: %w", err)
	}
	// If the predecessor has died meanwhile, Scan returns false. Then this process serves, because
	// it is the only server.
	if p.lines.Scan() && p.lines.Text() != wordGo && ctx.Err() == nil {
		return errors.New("the predecessor continues to serve")
	}
	_ = say(p.line, wordServing)
	p.serving = true
	go p.read(r)
	p.Wait(ctx, manager) // the service manager ignores this process until the predecessor has announced it
	return nil
}

// read reads the predecessor's messages until the predecessor closes the line.
func (p *Predecessor) read(r *Requests) {
	defer close(p.over)
	var history []byte
	for p.lines.Scan() {
		word, text, _ := strings.Cut(p.lines.Text(), " ")
		switch {
		case word == wordAgain:
			r.add()
		case word == wordOver:
			p.mu.Lock()
			closeOnce(p.service(text))
			p.mu.Unlock()
		case word != wordHistory || p.History == nil:
		case text == "":
			p.History(history)
			p.History, history = nil, nil
		case len(history) <= MaxHistory:
			// Ignore invalid base64, because the function History checks the data.
			history, _ = base64.StdEncoding.AppendDecode(history, []byte(text))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for _, c := range p.ended {
		closeOnce(c)
	}
}

// Hangup refuses further requests from the predecessor, and waits until the requests that the
// predecessor has already passed on were added to the Requests given to Ready. Call it when this
// process shuts down.
func (p *Predecessor) Hangup() {
	if p != nil && p.serving {
		_ = p.line.CloseRead()
		<-p.over
	}
}

// maxFailure is how many bytes of an error are sent to the predecessor, which logs them.
const maxFailure = 4 << 10

// Fail reports to the predecessor why this process cannot serve. It does nothing if err is nil or
// this process serves already.
func (p *Predecessor) Fail(err error) {
	if p == nil || err == nil || p.serving {
		return
	}
	text := oneLine(err.Error())
	p.line.SetWriteDeadline(time.Now().Add(writeTime))
	_ = say(p.line, wordFailed, text[:min(len(text), maxFailure)])
}

// ReportFailure reports to the predecessor, if there is one, a failure that occurred before
// [FindPredecessor] was called.
func ReportFailure(err error) {
	if p, _ := FindPredecessor(); p != nil {
		p.Fail(err)
		_ = p.Close()
	}
}

// service returns a channel that is closed when a service has ended. The caller holds mu.
func (p *Predecessor) service(name string) chan struct{} {
	c := p.ended[name]
	if c == nil {
		c = make(chan struct{})
		p.ended[name] = c
	}
	return c
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// Wait waits until a service of the predecessor has ended, or ctx has ended.
func (p *Predecessor) Wait(ctx context.Context, name string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	c := p.service(name)
	if p.gone {
		closeOnce(c)
	}
	p.mu.Unlock()
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// Close closes the line, and the sockets that were not taken.
func (p *Predecessor) Close() error {
	if p == nil {
		return nil
	}
	CloseSockets(p.sockets)
	return p.line.Close()
}
