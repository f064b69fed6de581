package tftp

import "testing"

// The buffers of a burst of transfers are not kept for ever.
func TestSpareBuffersAreBounded(t *testing.T) {
	l := &Listener{}
	sh := &shard{server: l}
	for range 4 * maxSpare {
		s := &session{shard: sh, counted: true}
		s.buffer.ring, s.fetch.buf = make([]byte, minRing), make([]byte, minFetch)
		l.count.Add(1)
		sh.release(s)
	}
	kept := 0
	for _, s := range sh.free {
		kept += cap(s.buffer.ring) + cap(s.fetch.buf)
	}
	if most := maxSpare * (minRing + minFetch); kept > most || kept == 0 {
		t.Errorf("%d bytes kept by %d sessions not in use, want at most %d", kept, len(sh.free), most)
	}
}
