package tftp

import (
	"context"
	"sync"
)

// A lifeContext is the context of one transfer, for [Config].Read and Write. It creates a
// cancellable context only on the first call of Done. Few stores ever wait for a context, and each
// cancellable one registers with the server's context, which all loops share.
type lifeContext struct {
	context.Context // the server's context

	mu     sync.Mutex
	ended  bool               // mu
	real   context.Context    // mu; nil before Done is called
	cancel context.CancelFunc // mu; cancels real
}

// end cancels the context when the transfer is over.
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
