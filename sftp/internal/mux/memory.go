package mux

// A bufferUse counts what the buffers of all files hold: data that was read ahead, or written
// and not confirmed. It is used under mu, and so are the types below.
type bufferUse struct {
	held int64      // bytes
	free []*segment // segments that are not in use
}

// reserve takes n of most bytes, if there are that many.
func (u *bufferUse) reserve(n, most int64) bool {
	if u.held+n > most {
		return false
	}
	u.held += n
	return true
}

// newSegment returns a segment of a file, if possible one that is not in use any more.
func (u *bufferUse) newSegment() *segment {
	n := len(u.free)
	if n == 0 {
		return &segment{}
	}
	s := u.free[n-1]
	u.free = u.free[:n-1]
	return s
}

// sureSegments is how many segments a file may have whatever others hold.
const sureSegments = 2

// A segmentUse counts the segments of one file.
type segmentUse struct {
	all      *bufferUse
	segments int
	held     int64 // bytes in their buffers
}

// mayHold reports whether the file may have a segment of size bytes more. memory is how many
// bytes all files may hold, and path how many one file may.
func (u *segmentUse) mayHold(size, memory, path int64) bool {
	return u.segments < sureSegments || u.all.held+size <= memory && u.held+size <= path
}

// hold counts segments and the bytes of their buffers.
func (u *segmentUse) hold(segments int, bytes int64) {
	u.segments += segments
	u.held += bytes
	u.all.held += bytes
}

// A segment is some of the bytes of a run of a WriteBehind. It is kept until the server has
// confirmed it, as its session may be lost.
type segment struct {
	use     *segmentUse
	off     int64
	n       int // bytes
	room    int // for how many bytes there is room
	buffer  *Buffer
	asked   bool // it was sent, so nothing is added to it
	writing int  // how many packets of sessions are in buffer
	done    bool // only those packets need it
}

func (s *segment) end() int64 { return s.off + int64(s.n) }

// written is called when a packet in the buffer has been sent.
func (s *segment) written() {
	s.writing--
	s.release()
}

// release frees the buffer if nothing needs it any more.
func (s *segment) release() {
	if !s.done || s.writing > 0 || s.buffer == nil {
		return
	}
	use := s.use
	use.hold(-1, -int64(len(s.buffer.Bytes)))
	s.buffer.Free()
	*s = segment{}
	use.all.free = append(use.all.free, s)
}
