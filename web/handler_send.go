package web

import (
	"io"
	"sync"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// smallBody is the largest content that is sent by one read and one write, in bytes. For so few
	// bytes, letting the kernel copy them (sendfile) saves nothing.
	smallBody = 16 << 10

	// copyBytes is the size of the buffers for content that the kernel does not send by itself:
	// eight TLS records.
	copyBytes = 128 << 10

	// firstPiece is how many bytes are read at once in the first step, for a file that the kernel
	// does not send: if it comes from another machine, reading more may take another round trip.
	firstPiece = 8 << 10

	// A file is sent in steps. Each step has Handler.Stall as its timeout, and the bytes of a step
	// are counted after the step. The size of a step is adapted so that the client receives it in
	// one to four seconds.
	firstStep = 64 << 10
	minStep   = 16 << 10
	maxStep   = 4 << 20
	quickStep = time.Second
	slowStep  = 4 * time.Second
)

var copyBuffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// A delivery is an exchange that sends a file, or a part of it.
type delivery struct{ *exchange }

// send sends n bytes of f, starting at offset off.
//
// A file that the kernel can send must reach the connection unwrapped. Any reader around it, except
// one io.LimitedReader, would hide it, and the kernel's copy would not be used. So the bytes are
// not counted by a reader, but after each step.
func (x delivery) send(f store.File, off, n int64) error {
	if n <= smallBody {
		return x.sendSmall(f, off, int(n))
	}
	to, byKernel := x.w.(io.ReaderFrom)
	byKernel = byKernel && x.r.TLS == nil && x.r.ProtoMajor == 1
	parts, ok := store.As[store.PartOpener](f)
	ok = ok && byKernel
	var buf sendBuffer
	defer buf.release()
	return x.inSteps(n, func(n int64) (moved int64, err error) {
		if ok {
			moved, err = x.sendParts(to, parts, f, off, n, &buf)
		} else {
			moved, err = copyAt(x.w, f, off, n, buf.piece())
		}
		off += moved
		buf.full = true
		return moved, err
	})
}

// A sendBuffer is a buffer for bytes that the kernel does not send. It is allocated on first use.
type sendBuffer struct {
	b    *[copyBytes]byte
	full bool // use all of b, and not only firstPiece bytes
}

func (s *sendBuffer) piece() []byte {
	if s.b == nil {
		s.b = copyBuffers.Get().(*[copyBytes]byte)
	}
	if !s.full {
		return s.b[:firstPiece]
	}
	return s.b[:]
}

func (s *sendBuffer) release() {
	if s.b != nil {
		copyBuffers.Put(s.b)
	}
}

// sendParts is like copyAt, for a file of which the kernel can send some parts. It copies the other
// parts through buf.
func (x delivery) sendParts(to io.ReaderFrom, parts store.PartOpener, f io.ReaderAt, off, n int64, buf *sendBuffer) (moved int64, err error) {
	for moved < n {
		var sent, want int64
		if part, length, end, ok := parts.OpenPart(off+moved, n-moved); ok {
			want = length
			sent, err = to.ReadFrom(&io.LimitedReader{R: part, N: length})
			end()
		} else {
			piece := buf.piece()
			want = min(n-moved, int64(len(piece)))
			sent, err = copyAt(x.w, f, off+moved, want, piece)
		}
		if moved += sent; err != nil || sent < want {
			break
		}
	}
	return moved, err
}

// sendSmall sends content that fits into one read. It uses the write deadline that writeHeader has
// set.
func (x delivery) sendSmall(f store.File, off int64, n int) error {
	if n == 0 {
		return nil
	}
	buf := copyBuffers.Get().(*[copyBytes]byte)
	defer copyBuffers.Put(buf)
	sent, err := copyAt(x.w, f, off, int64(n), buf[:])
	wait := x.addSent(sent)
	switch {
	case err != nil:
		return err
	case sent < int64(n):
		return ErrShrunk
	}
	_ = x.pause(wait) // an error does not matter, because all bytes are written already
	return nil
}

// copyAt copies n bytes of f, from off on. If f ends early, it returns a smaller number and no
// error.
func copyAt(w io.Writer, f io.ReaderAt, off, n int64, buf []byte) (moved int64, err error) {
	for moved < n {
		b := buf[:min(int64(len(buf)), n-moved)]
		got, readErr := f.ReadAt(b, off+moved)
		if got > 0 {
			wrote, err := w.Write(b[:got])
			moved += int64(wrote)
			if err != nil {
				return moved, err
			}
		}
		switch {
		case got == len(b):
		case readErr == io.EOF || readErr == nil:
			return moved, nil
		default:
			return moved, readErr
		}
	}
	return moved, nil
}

// inSteps moves n bytes by calls of move, and sets a deadline for each call.
func (x delivery) inSteps(n int64, move func(n int64) (int64, error)) error {
	step, most := int64(firstStep), int64(maxStep)
	if r := x.slowest(); r > 0 {
		most = min(max(r/8, minStep), maxStep) // so that the rate alone does not make a step too slow
		step = min(step, most)
	}
	for sent := int64(0); n > 0; {
		began := time.Now()
		x.patient(0)
		part := min(n, step)
		moved, err := move(part)
		wait := x.addSent(moved)
		n -= moved
		sent += moved
		if err == nil && moved < part {
			err = ErrShrunk
		}
		if err != nil {
			return err
		}
		switch took := time.Since(began); {
		case took < quickStep:
			// A step begins at a multiple of its size, so that chunks of the cache are sent whole.
			step = min(2*step, most, sent)
		case took > slowStep:
			step = max(step/2, minStep)
		}
		if err := x.pause(wait); err != nil && n > 0 {
			return err
		}
	}
	return nil
}
