package mux

// A bufferUse counts the bytes in the buffers of all files: data that was read ahead, or written
// and not confirmed. It is used under mu, as are the types below.
type bufferUse struct {
	held int64      // number of bytes
	free []*segment // unused segments
}

// reserve adds n bytes to held if the total stays within most, and reports whether it did.
func (u *bufferUse) reserve(n, most int64) bool {
	if u.held+n > most {
		return false
	}
	u.held += n
	return true
}

// newSegment returns a segment for a file. It reuses a free one if possible.
func (u *bufferUse) newSegment() *segment {
	n := len(u.free)
	if n == 0 {
		return &segment{}
	}
	s := u.free[n-1]
	u.free = u.free[:n-1]
	return s
}

// sureSegments is how many segments a file may always have, however much memory others hold.
const sureSegments = 2

// A segmentUse counts the segments of one file.
type segmentUse struct {
	all      *bufferUse
	segments int
	held     int64 // bytes in their buffers
}

// mayHold reports whether the file may have another segment of size bytes. memory is how many bytes
// all files together may hold, and path how many this file may hold.
func (u *segmentUse) mayHold(size, memory, path int64) bool {
	return u.segments < sureSegments || u.all.held+size <= memory && u.held+size <= path
}

// hold adds to the counts of segments and of bytes in their buffers.
func (u *segmentUse) hold(segments int, bytes int64) {
	u.segments += segments
	u.held += bytes
	u.all.held += bytes
}

// A segment is a part of a run of a WriteBehind. It is kept until the server has confirmed it, so
// that it can be sent again if its session is lost.
type segment struct {
	use     *segmentUse
	off     int64
	n       int // number of bytes
	room    int // capacity in bytes
	buffer  *Buffer
	asked   bool // it was sent, so no more data is added
	writing int  // how many queued packets refer to buffer
	done    bool // nothing but those packets needs it
}

func (s *segment) end() int64 { return s.off + int64(s.n) }

// written is called when a packet that refers to the buffer has been sent.
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
