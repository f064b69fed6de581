package tcp

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

type counting struct {
	asked  int
	buffer []byte
}

func (c *counting) Reset() { c.asked = 0 }

// A state belongs to one connection, and is new for the next.
func TestWithState(t *testing.T) {
	type plain struct{ asked int }
	for name, handle := range map[string]func(context.Context, net.Conn){
		"plain": WithState(func(_ context.Context, c net.Conn, s *plain) {
			b := make([]byte, 1)
			for {
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				s.asked++
				_, _ = c.Write([]byte{byte(s.asked)})
			}
		}),
		"with Reset": WithState(func(_ context.Context, c net.Conn, s *counting) {
			if s.buffer == nil {
				s.buffer = make([]byte, 1)
			}
			for {
				if _, err := io.ReadFull(c, s.buffer); err != nil {
					return
				}
				s.asked++
				_, _ = c.Write([]byte{byte(s.asked)})
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			at, _ := serve(t, &Server{Handle: handle})
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 10 {
						if got := ask(t, at, "abc"); got != "\x01\x02\x03" {
							t.Errorf("got %q", got)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
