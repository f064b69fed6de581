// Netpoll is a program of the suite around the library github.com/cloudwego/netpoll: see package
// tcpprog.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cloudwego/netpoll"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("netpoll", serve) }

var outs = sync.Pool{New: func() any { return new([]byte) }}

func serve(ctx context.Context, o tcpprog.Options) error {
	if err := o.Only(false, false, false); err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	l, err := netpoll.CreateListener("tcp4", o.Listen)
	if err != nil {
		return err
	}
	loop, err := netpoll.NewEventLoop(func(_ context.Context, c netpoll.Connection) error {
		return answer(c, r)
	})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = loop.Shutdown(ctx) }) // the error only says that ctx has ended
	return loop.Serve(l)
}

// answer reads a request and answers it. netpoll calls it in a goroutine of a pool as long as the
// connection has unread data.
func answer(c netpoll.Connection, r *tcpprog.Responder) error {
	in := c.Reader()
	for have := in.Len(); ; have = in.Len() {
		data, err := in.Peek(have)
		if err != nil {
			return err
		}
		if end := tcpprog.RequestEnd(data); end > 0 {
			if err := in.Skip(end); err != nil {
				return err
			}
			break
		}
		if have > tcpprog.MaxRequest {
			c.Close()
			return fmt.Errorf("a request of more than %d bytes", tcpprog.MaxRequest)
		}
		if _, err := in.Peek(have + 1); err != nil { // wait until more data arrives
			return err
		}
	}
	if err := in.Release(); err != nil {
		return err
	}
	if r.Delay > 0 {
		time.Sleep(r.Delay)
	}
	scratch := outs.Get().(*[]byte)
	defer outs.Put(scratch) // by then Flush has sent the answer, or the connection has failed
	if _, err := c.Writer().WriteBinary(r.Answer(scratch)); err != nil {
		return err
	}
	if err := c.Writer().Flush(); err != nil || !r.Close {
		return err
	}
	return c.Close()
}
