package peer

import (
	"strings"
	"sync"
)

// tailBytes is how many bytes from the end of a server's output are kept. The end contains the
// reason for a failure.
const tailBytes = 8 << 10

// A tail is a writer that keeps the last tailBytes bytes that were written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write appends p and drops bytes from the beginning. It never returns an error.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailBytes):]...)
	if len(t.buf) > 2*tailBytes {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailBytes:]...)
	}
	return len(p), nil
}

// String returns the kept bytes, or "nothing" if no bytes are kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.TrimSpace(string(t.buf[max(0, len(t.buf)-tailBytes):]))
	if s == "" {
		return "nothing"
	}
	return s
}
