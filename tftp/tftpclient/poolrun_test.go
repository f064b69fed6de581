package tftpclient

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A gate is a source whose reads wait until it is closed, and then fail with its error.
type gate struct {
	reading chan struct{} // receives a value for each read that begins
	open    chan struct{}
	err     error
}

func (g *gate) ReadAt(p []byte, _ int64) (int, error) {
	g.reading <- struct{}{}
	<-g.open
	return len(p), g.err
}

// A transfer can end before its request is sent, while a worker still reads the file. It ends once,
// and only after the worker has returned.
func TestPoolEndsBeforeRequest(t *testing.T) {
	errRead := errors.New("the disk is broken")
	for _, test := range []struct {
		name string
		end  func(p *Pool, cancel func())
		err  error // the error from reading the source
		want error
	}{
		{"the context ends", func(_ *Pool, cancel func()) { cancel() }, nil, context.Canceled},
		{"the pool is closed", func(p *Pool, _ func()) { go p.Close() }, nil, ErrPoolClosed},
		{"the source fails", func(*Pool, func()) {}, errRead, errRead},
	} {
		server, to := handServer(t)
		to.Mode = transfer.Netascii // its size is found by reading the whole file
		p := newPool(t, &Pool{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g := &gate{reading: make(chan struct{}, 100), open: make(chan struct{}), err: test.err}
		if err := p.Put(ctx, to, io.NewSectionReader(g, 0, 1000), 1000, p.done("file")); err != nil {
			t.Fatal(err)
		}
		<-g.reading
		test.end(p.Pool, cancel)
		if p.common.pending.size() != 1 {
			t.Errorf("%s: the transfer is over before the worker returns", test.name)
		}
		// This is usually enough for the loop to see the end first; both orders are right.
		time.Sleep(20 * time.Millisecond)
		close(g.open)
		if err := p.wait()["file"]; !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if test.err != nil {
			server.WantNothing("no request", 20*time.Millisecond)
		}
	}
}
