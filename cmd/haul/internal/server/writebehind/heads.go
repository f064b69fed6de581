package writebehind

import "encoding/binary"

// These constants are from HTTP/2 (RFC 9113 §3.4, §4.1, §6.2, §6.10).
const (
	prefaceSize = 24 // size of the client's connection preface, in bytes
	frameHead   = 9

	headersFrame      = 1
	continuationFrame = 9
	endHeaders        = 4 // the flag END_HEADERS of HEADERS and CONTINUATION frames
)

// heads parses the frames that a client sends, to detect whether a request header has begun and is
// not complete yet. It does not check anything else about the frames.
type heads struct {
	skip  int // number of bytes of the preface or of a frame that have still to arrive
	frame [frameHead]byte
	have  int  // number of bytes of a frame's header that have arrived in the array `frame`
	ends  bool // the request header is complete at the end of this frame
	open  bool // a request header has begun and is not complete
	begun int  // number of request headers that have begun so far
}

// take parses the next bytes that the client has sent.
func (h *heads) take(b []byte) {
	for {
		n := min(h.skip, len(b))
		h.skip -= n
		b = b[n:]
		if h.skip == 0 && h.ends {
			h.open, h.ends = false, false
		}
		if len(b) == 0 {
			return
		}
		n = copy(h.frame[h.have:], b)
		h.have += n
		b = b[n:]
		if h.have < frameHead {
			return
		}
		h.have = 0
		h.skip = int(binary.BigEndian.Uint32(h.frame[:]) >> 8)
		switch h.frame[3] {
		case headersFrame:
			h.open = true
			h.begun++
			h.ends = h.frame[4]&endHeaders != 0
		case continuationFrame:
			h.ends = h.frame[4]&endHeaders != 0
		}
	}
}
