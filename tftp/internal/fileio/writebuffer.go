package fileio

import (
	"errors"
	"fmt"
	"io"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
)

// A WriteBuffer holds the blocks of an upload, which are small and sometimes out of order, until a
// worker writes them to the store in larger pieces. It is a ring with room for the file's bytes
// from flushed up to, but not including, flushed+len(ring).
//
// The loop adds blocks after the bytes that a worker may be flushing, so the two never touch the
// same bytes.
type WriteBuffer struct {
	ring     []byte
	received int64 // all bytes before this offset were received
	flushed  int64 // all bytes before this offset are in the store
	marked   int64 // Flush writes up to this offset
	limit    int64 // size of the largest file that is accepted, in bytes; 0 for no limit

	text    bool // the file is in netascii: blocks arrive in order, and are translated on arrival
	decoder protocol.NetasciiDecoder
	scratch []byte // a translated block
}

// Reset prepares the buffer for another file, with size bytes of memory.
func (b *WriteBuffer) Reset(size int, limit int64, mode transfer.Mode) {
	ring := b.ring
	if cap(ring) < size {
		ring = make([]byte, size)
	}
	*b = WriteBuffer{ring: ring[:size], limit: limit, text: mode == transfer.Netascii, scratch: b.scratch[:0]}
}

// Size returns how many bytes of memory b has.
func (b *WriteBuffer) Size() int { return cap(b.ring) }

// Spare returns an empty buffer. The buffer reuses the memory of b if that is at most `most` bytes.
func (b *WriteBuffer) Spare(most int) WriteBuffer {
	if cap(b.ring) > most {
		return WriteBuffer{}
	}
	return WriteBuffer{ring: b.ring}
}

// Put adds a chunk. received is the number of bytes received before the first gap, including those
// of the chunk. Put fails if the file becomes larger than allowed.
func (b *WriteBuffer) Put(c protocol.Chunk, received int64) error {
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
		return errOverrun // the machine's window is larger than the ring, which is a bug
	}
	n := copy(b.ring[off%int64(len(b.ring)):], data)
	copy(b.ring, data[n:])
	b.received = received
	return nil
}

// Errors about data that a peer sends.
var (
	ErrTooLarge     = errors.New("file is larger than allowed")
	ErrNotAnnounced = errors.New("file is not of the size announced")

	errOverrun = errors.New("upload overruns its buffer")
)

// pending returns how many bytes are not flushed.
func (b *WriteBuffer) pending() int64 { return b.received - b.flushed }

// IsHalfFull reports whether enough bytes are pending to be worth a write.
func (b *WriteBuffer) IsHalfFull() bool { return b.pending() >= int64(len(b.ring)/2) }

// Fits reports whether another n bytes fit after the received ones.
func (b *WriteBuffer) Fits(n int64) bool {
	if b.text {
		n++ // for a CR that the decoder holds back
	}
	return b.pending()+n <= int64(len(b.ring))
}

// Mark makes the next flush write all bytes that were received so far.
func (b *WriteBuffer) Mark() { b.marked = b.received }

// Free frees the marked bytes, which are now in the store.
func (b *WriteBuffer) Free() { b.flushed = b.marked }

// Flush writes the marked bytes to the store. A worker runs it, while the loop continues to add
// bytes after them.
func (b *WriteBuffer) Flush(w io.WriterAt) error {
	for from := b.flushed; from < b.marked; {
		at := from % int64(len(b.ring))
		piece := b.ring[at:min(int64(len(b.ring)), at+b.marked-from)]
		switch n, err := w.WriteAt(piece, from); {
		case err != nil:
			return err
		case n != len(piece):
			return io.ErrShortWrite // a fault of the store; the file must not be taken for complete
		}
		from += int64(len(piece))
	}
	return nil
}

// Commit writes the marked bytes, which are the end of the file, and publishes the file.
func (b *WriteBuffer) Commit(u store.Upload) error {
	if err := b.Flush(u); err != nil {
		return err
	}
	if err := u.Truncate(b.marked); err != nil {
		return err
	}
	return u.Commit()
}

// CheckAnnounced returns ErrNotAnnounced if a file does not have the size that its sender announced
// with tsize, or is already larger. A size of 0 means unknown. In netascii sizes are not checked,
// because peers count them differently.
func CheckAnnounced(o transfer.Options, m transfer.Mode, c protocol.Chunk, received int64) error {
	most := max(received, c.Offset+int64(len(c.Data)))
	if !o.HasSize || o.Size == 0 || m == transfer.Netascii || most == o.Size || most < o.Size && !c.Last {
		return nil
	}
	return fmt.Errorf("%w: %d bytes instead of %d", ErrNotAnnounced, most, o.Size)
}
