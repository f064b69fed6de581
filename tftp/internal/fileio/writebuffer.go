package fileio

import (
	"errors"
	"fmt"
	"io"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// A WriteBuffer stands between the blocks of an upload, small and sometimes out
// of order, and the store, which a worker writes to in larger pieces. It is a
// ring of bytes of the file, [flushed, flushed+len(ring)).
//
// The loop puts blocks in behind what a worker may be flushing, so the two
// never touch the same bytes.
type WriteBuffer struct {
	ring     []byte
	received int64 // everything before this offset has come
	flushed  int64 // everything before this offset is in the store
	marked   int64 // flush writes up to this offset
	limit    int64 // largest file taken; 0 for no limit

	text    bool // netascii: translated as it comes, in order
	decoder transfer.NetasciiDecoder
	scratch []byte // a translated block
}

// Reset makes the buffer ready for another file, with size bytes of memory.
func (b *WriteBuffer) Reset(size int, limit int64, mode transfer.Mode) {
	ring := b.ring
	if cap(ring) < size {
		ring = make([]byte, size)
	}
	*b = WriteBuffer{ring: ring[:size], limit: limit, text: mode == transfer.Netascii, scratch: b.scratch[:0]}
}

// Size returns the bytes of memory that b has.
func (b *WriteBuffer) Size() int { return cap(b.ring) }

// Spare returns a buffer for later that has the memory of b, if that is at most the
// given number of bytes.
func (b *WriteBuffer) Spare(most int) WriteBuffer {
	if cap(b.ring) > most {
		return WriteBuffer{}
	}
	return WriteBuffer{ring: b.ring}
}

// Put takes a chunk. It fails if the file becomes larger than allowed.
func (b *WriteBuffer) Put(c transfer.Chunk, received int64) error {
	off, data := c.Offset, c.Data
	if b.text {
		b.scratch = b.decoder.Append(b.scratch[:0], data)
		if c.Last {
			b.scratch = b.decoder.End(b.scratch)
		}
		off, data = b.received, b.scratch
		received = off + int64(len(data))
	}
	end := off + int64(len(data))
	if b.limit > 0 && end > b.limit {
		return ErrTooLarge
	}
	if end > b.flushed+int64(len(b.ring)) {
		return errOverrun // the machine's window is smaller than the ring: a bug of ours
	}
	n := copy(b.ring[off%int64(len(b.ring)):], data)
	copy(b.ring, data[n:])
	b.received = received
	return nil
}

// Errors of what a peer sends.
var (
	ErrTooLarge     = errors.New("file is larger than allowed")
	ErrNotAnnounced = errors.New("file is not of the size announced")

	errOverrun = errors.New("upload overruns its buffer")
)

// pending returns how many bytes wait to be flushed.
func (b *WriteBuffer) pending() int64 { return b.received - b.flushed }

// IsHalfFull reports whether enough waits to be worth a write.
func (b *WriteBuffer) IsHalfFull() bool { return b.pending() >= int64(len(b.ring)/2) }

// Fits reports whether another n bytes fit behind those that have come.
func (b *WriteBuffer) Fits(n int64) bool {
	if b.text {
		n++ // a CR that the decoder holds back
	}
	return b.pending()+n <= int64(len(b.ring))
}

// Mark has the next flush write all that has come until now.
func (b *WriteBuffer) Mark() { b.marked = b.received }

// Free makes room of what was marked, and is in the store.
func (b *WriteBuffer) Free() { b.flushed = b.marked }

// Flush writes what was marked to the store. A worker runs it, while the loop
// continues to add bytes behind that.
func (b *WriteBuffer) Flush(w io.WriterAt) error {
	for from := b.flushed; from < b.marked; {
		at := from % int64(len(b.ring))
		piece := b.ring[at:min(int64(len(b.ring)), at+b.marked-from)]
		switch n, err := w.WriteAt(piece, from); {
		case err != nil:
			return err
		case n != len(piece):
			return io.ErrShortWrite // a fault of the store's, which must not pass for a whole file
		}
		from += int64(len(piece))
	}
	return nil
}

// Commit writes what was marked, the end of the file, and publishes it.
func (b *WriteBuffer) Commit(u store.Upload) error {
	if err := b.Flush(u); err != nil {
		return err
	}
	if err := u.Truncate(b.marked); err != nil {
		return err
	}
	return u.Commit()
}

// CheckAnnounced returns an error if a file has not the size that its sender announced by
// tsize, or is larger already. 0 stands for unknown, and in netascii sizes are a
// matter of opinion.
func CheckAnnounced(o transfer.Options, m transfer.Mode, c transfer.Chunk, received int64) error {
	most := max(received, c.Offset+int64(len(c.Data)))
	if !o.HasSize || o.Size == 0 || m == transfer.Netascii || most == o.Size || most < o.Size && !c.Last {
		return nil
	}
	return fmt.Errorf("%w: %d bytes instead of %d", ErrNotAnnounced, most, o.Size)
}
