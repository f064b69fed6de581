package mux

// A bufferUse counts the bytes in the buffers of all files: data that was read ahead, and data that
// was written but not confirmed. This type and the types below are used under mu.
type bufferUse struct {
	held int64      // bytes in the buffers of all files
	free []*segment // segments without a buffer, for reuse by newSegment
}

// reserve adds n bytes to the count `held` and returns true. If the count would then exceed `most`
// bytes, reserve changes nothing and returns false.
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

// sureSegments is how many segments a file may always have, even if other files use all the memory.
const sureSegments = 2

// A segmentUse counts the segments of one file.
type segmentUse struct {
	all      *bufferUse
	segments int
	held     int64 // bytes in the buffers of these segments
}

// mayHold reports whether the file may have another segment of `size` bytes. All files together may
// hold `memory` bytes, and this file may hold `path` bytes, because more would not fit on the path
// to the server.
func (u *segmentUse) mayHold(size, memory, path int64) bool {
	return u.segments < sureSegments || u.all.held+size <= memory && u.held+size <= path
}

// hold adds to the number of segments, and to the number of bytes in their buffers. Both arguments
// may be negative.
func (u *segmentUse) hold(segments int, bytes int64) {
	u.segments += segments
	u.held += bytes
	u.all.held += bytes
}

// A segment is a part of a run of a WriteBehind. It is kept until the server has confirmed its
// data, so that the data can be sent again if the session is lost.
type segment struct {
	use     *segmentUse
	off     int64
	n       int // bytes of data in the buffer
	room    int // how many bytes of data the buffer has room for
	buffer  *Buffer
	asked   bool // its data was sent, so no more data is added to it
	writing int  // number of users that still need the buffer, such as queued packets
	done    bool // the run no longer needs the segment
}

func (s *segment) end() int64 { return s.off + int64(s.n) }

// written is called when one of the counted users, such as a packet that was sent, no longer needs
// the buffer.
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
