package mux

import (
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// takePrefetched returns what is known of a first file, once, if it is the one that
// is to be opened now, and on a lane that is alive.
func (m *Mux) takePrefetched(name string) *prefetched {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.prefetched
	if f == nil || f.name != name {
		return nil
	}
	m.prefetched = nil
	if f.lane.err == nil && time.Now().Before(f.until) {
		return f
	}
	if f.open == nil {
		m.CloseHandle(Handle{f.lane, f.handle})
	}
	return nil
}

// PrefetchedAttrs returns the answer to the prefetched STAT, a few times.
func (m *Mux) PrefetchedAttrs(name string) (wire.Attrs, error, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.prefetched
	if f == nil || f.name != name || f.stats == prefetchStats || !time.Now().Before(f.until) {
		return wire.Attrs{}, nil, false
	}
	f.stats++
	return f.attrs, m.config.Refused(f.stat), true
}
