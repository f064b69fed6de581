package tftp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A transfer's context ends when the transfer or the server ends, whether Done is called before or
// after that. Until Done is called, the context is not registered with the server's context.
func TestLifeContext(t *testing.T) {
	for name, asks := range map[string]func(context.Context){
		"nobody waits":   func(context.Context) {},
		"somebody waits": func(c context.Context) { c.Done() },
	} {
		for _, server := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				parent, stop := context.WithCancelCause(context.WithValue(t.Context(), t, "value"))
				defer stop(nil)
				c := &lifeContext{Context: parent}
				asks(c)
				derived, cancel := context.WithCancel(c)
				defer cancel()
				if c.Err() != nil || derived.Err() != nil || c.Value(t) != "value" {
					t.Errorf("%s: ended at once: %v, %v", name, c.Err(), derived.Err())
				}
				if server {
					stop(errors.New("the server ends"))
				} else {
					c.end()
				}
				synctest.Wait()
				for _, ctx := range []context.Context{c, derived} {
					select {
					case <-ctx.Done():
					default:
						t.Errorf("%s, server %t: does not end", name, server)
					}
					if !errors.Is(ctx.Err(), context.Canceled) {
						t.Errorf("%s, server %t: %v", name, server, ctx.Err())
					}
				}
				c.end() // a second call
			})
		}
	}
	c := &lifeContext{Context: t.Context()}
	c.end()
	if c.Err() == nil {
		t.Error("no error after the end")
	}
	select {
	case <-c.Done():
	default:
		t.Error("Done is open after the end")
	}
}
