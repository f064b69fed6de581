package mux

import "time"

// hangUpTime is how long Drain waits.
const hangUpTime = time.Second

// Drain waits, for a second at most, until the server has answered the CLOSEs that
// nobody waits for: see Drain of the client.
func (m *Mux) Drain() {
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
func (m *Mux) requestsSent() bool {
	if m.calls.Len() > 0 {
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
func (m *Mux) handleClosed(error) {
	m.closing--
	m.wakeDrain()
}

// wakeDrain lets those look who wait in Drain. The caller holds mu.
func (m *Mux) wakeDrain() {
	if m.drained != nil {
		close(m.drained)
		m.drained = nil
	}
}
