package tftp

import (
	"errors"
	"fmt"
	"io"

	"github.com/haul-project/haul/tftp/transfer"
)

// A writeBuffer stands between the blocks of an upload, small and sometimes out
// of order, and the store, which a worker writes to in larger pieces. It is a
// ring of bytes of the file, [flushed, flushed+len(ring)).
//
// The loop puts blocks in behind what a worker may be flushing, so the two
// never touch the same bytes.
type writeBuffer struct {
	ring     []byte
	received int64 // everything before this offset has come
	flushed  int64 // everything before this offset is in the store
	limit    int64 // largest file taken; 0 for no limit

	text    bool // netascii: translated as it comes, in order
	decoder transfer.NetasciiDecoder
	scratch []byte // a translated block
}

// reset makes the buffer ready for another file, with the given memory.
func (b *writeBuffer) reset(ring []byte, limit int64, mode transfer.Mode) {
	*b = writeBuffer{ring: ring, limit: limit, text: mode == transfer.Netascii, scratch: b.scratch[:0]}
}

// put takes a chunk. It fails if the file becomes larger than allowed.
func (b *writeBuffer) put(c transfer.Chunk, received int64) error {
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
		return errTooLarge
	}
	if end > b.flushed+int64(len(b.ring)) {
		return errOverrun // the machine's window is smaller than the ring: a bug of ours
	}
	n := copy(b.ring[off%int64(len(b.ring)):], data)
	copy(b.ring, data[n:])
	b.received = received
	return nil
}

var errOverrun = errors.New("upload overruns its buffer")

// pending returns how many bytes wait to be flushed.
func (b *writeBuffer) pending() int64 { return b.received - b.flushed }

// fits reports whether another n bytes fit behind those that have come.
func (b *writeBuffer) fits(n int64) bool {
	if b.text {
		n++ // a CR that the decoder holds back
	}
	return b.pending()+n <= int64(len(b.ring))
}

// flush writes the file's bytes up to the given offset to the store. A worker
// runs it, while the loop continues to add bytes behind them.
func (b *writeBuffer) flush(w io.WriterAt, from, to int64) error {
	for from < to {
		at := from % int64(len(b.ring))
		piece := b.ring[at:min(int64(len(b.ring)), at+to-from)]
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

// announced returns an error if a file has not the size that its sender announced by
// tsize, or is larger already. 0 stands for unknown, and in netascii sizes are a
// matter of opinion.
func announced(o transfer.Options, m transfer.Mode, c transfer.Chunk, received int64) error {
	most := max(received, c.Offset+int64(len(c.Data)))
	if !o.HasSize || o.Size == 0 || m == transfer.Netascii || most == o.Size || most < o.Size && !c.Last {
		return nil
	}
	return fmt.Errorf("%w: %d bytes instead of %d", errNotAnnounced, most, o.Size)
}
