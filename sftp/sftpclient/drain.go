package sftpclient

import "time"

// hangUpTime is how long Drain waits.
const hangUpTime = time.Second

// Drain waits until the server has closed the files that were, where [File.Close]
// does not wait for that itself: those that were only read. To a server, a client
// that hangs up before has left them open, and its log says so.
//
// If there is one such file, open in one session, it is enough that the server
// has been sent the request: it reads what came before the connection ended. What is on its
// way of several is lost if the server answers one of them, and there is nobody
// any more to answer to.
//
// It takes no longer than a second, whatever the server does. [Client.Close] does
// it too; programs that end the connection before the Client call it themselves.
func (c *Client) Drain() { c.mux.drain() }

func (m *mux) drain() {
	timer := time.NewTimer(hangUpTime)
	defer timer.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	several := m.closing > 1
	for m.closing > 0 && m.err == nil && (several || !m.requestsSent()) {
		if m.drained == nil {
			m.drained = make(chan struct{})
		}
		look := m.drained
		m.mu.Unlock()
		select {
		case <-look:
			m.mu.Lock()
		case <-timer.C:
			m.mu.Lock()
			return
		}
	}
}

// requestsSent reports whether all requests but those of data have been sent. The caller
// holds mu.
func (m *mux) requestsSent() bool {
	if m.calls.len() > 0 {
		return false
	}
	for _, l := range m.pool.lanes {
		if l != nil && l.err == nil && (len(l.text) > 0 || l.sending) {
			return false
		}
	}
	return true
}

// handleClosed is called when a CLOSE that nobody waits for has ended. The caller
// holds mu.
func (m *mux) handleClosed(error) {
	m.closing--
	m.wakeDrain()
}

// wakeDrain lets those look who wait in Drain. The caller holds mu.
func (m *mux) wakeDrain() {
	if m.drained != nil {
		close(m.drained)
		m.drained = nil
	}
}
