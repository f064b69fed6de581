package mux

import "sync"

// A connection has lanes.
type connection struct {
	carrier Carrier
	owned   bool // to be closed with the Client

	// All of mux.mu:
	open    []*Lane
	opening int
	limit   int  // lanes the server allows, as far as known
	served  bool // it has had a lane
	pinging bool
}

// ping asks whether a connection is alive, and closes it if there is no answer in
// the time after which a server has stalled. The caller holds mu, the lock of the mux.
func (c *connection) ping(mu *sync.Mutex) {
	if c.pinging {
		c.abandon()
		return
	}
	c.pinging = true
	go func() { // it ends with the connection
		err := c.carrier.Ping()
		mu.Lock()
		defer mu.Unlock()
		c.pinging = false
		if err != nil {
			c.abandon()
		}
	}()
}

// abandon closes a connection under all of its lanes. The caller
// holds mux.mu.
func (c *connection) abandon() {
	c.limit = 0
	go func() { _ = c.carrier.Close() }()
	for _, l := range c.open {
		l.fail(ErrStalled)
	}
}
