package tftp

import (
	"context"
	"sync"
)

// A lifeContext is the context of one transfer, which Read and Write of a [Config] get. It creates
// a cancellable context only when Done is called for the first time. Few stores call Done, and each
// cancellable context has to be registered with the server's context, which all loops share.
type lifeContext struct {
	context.Context // the server's context

	mu     sync.Mutex
	ended  bool               // end was called. Guarded by mu
	real   context.Context    // the cancellable context; nil before Done is called. Guarded by mu
	cancel context.CancelFunc // cancels real. Guarded by mu
}

// end cancels the context, because the transfer is over.
func (c *lifeContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *lifeContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.cancel = context.WithCancel(c.Context)
		if c.ended {
			c.cancel()
		}
	}
	return c.real.Done()
}

func (c *lifeContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil:
		return c.real.Err()
	case c.ended:
		return context.Canceled
	}
	return c.Context.Err()
}
