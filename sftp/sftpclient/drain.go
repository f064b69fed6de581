package sftpclient

import "time"

// hangUpTime is how long Drain waits.
const hangUpTime = time.Second

// Drain waits until the server has closed the files that were, where [File.Close]
// does not wait for that itself: those that were only read. Who hangs up before
// has left them open, as the server sees it, and its log says so.
//
// If there is one such file, open in one session, it is enough that the server
// has been told: it reads what came before the connection ended. What is on its
// way of several is lost if the server answers one of them, and there is nobody
// any more to answer to.
//
// It takes no longer than a second, whatever the server does. [Client.Close] does
// it too; it is for who ends the connection itself, before the Client.
func (c *Client) Drain() {
	timer := time.NewTimer(hangUpTime)
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	several := c.closing > 1
	for c.closing > 0 && c.err == nil && (several || !c.told()) {
		if c.drained == nil {
			c.drained = make(chan struct{})
		}
		look := c.drained
		c.mu.Unlock()
		select {
		case <-look:
			c.mu.Lock()
		case <-timer.C:
			c.mu.Lock()
			return
		}
	}
}

// told reports whether all requests but those of data have been sent. The caller
// holds mu.
func (c *Client) told() bool {
	if c.calls.len() > 0 {
		return false
	}
	for _, l := range c.lanes {
		if l != nil && l.err == nil && (len(l.text) > 0 || l.sending) {
			return false
		}
	}
	return true
}

// closedHandle is told of the end of a CLOSE that nobody waits for. The caller
// holds mu.
func (c *Client) closedHandle(error) {
	c.closing--
	c.wakeDrain()
}

// wakeDrain lets those look who wait in Drain. The caller holds mu.
func (c *Client) wakeDrain() {
	if c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
}
