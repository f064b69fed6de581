package tftp

import (
	"errors"
	"io"

	"github.com/haul-project/haul/tftp/transfer"
)

// An intake stands between the blocks of an upload, small and sometimes out
// of order, and the store, which a worker writes to in larger pieces. It is a
// ring of bytes of the file, [flushed, flushed+len(ring)).
//
// The loop puts blocks in behind what a worker may be flushing, so the two
// never touch the same bytes.
type intake struct {
	ring    []byte
	whole   int64 // everything before this offset has come
	flushed int64 // everything before this offset is in the store
	limit   int64 // largest file taken; 0 for no limit

	text    bool // netascii: translated as it comes, in order
	decoder transfer.NetasciiDecoder
	scratch []byte // a translated block
}

// reset makes the intake ready for another file, with the given memory.
func (in *intake) reset(ring []byte, limit int64, mode transfer.Mode) {
	*in = intake{ring: ring, limit: limit, text: mode == transfer.Netascii, scratch: in.scratch[:0]}
}

// put takes a chunk. It fails if the file becomes larger than allowed.
func (in *intake) put(c transfer.Chunk, received int64) error {
	off, data := c.Offset, c.Data
	if in.text {
		in.scratch = in.decoder.Append(in.scratch[:0], data)
		if c.Last {
			in.scratch = in.decoder.End(in.scratch)
		}
		off, data = in.whole, in.scratch
		received = off + int64(len(data))
	}
	end := off + int64(len(data))
	if in.limit > 0 && end > in.limit {
		return errTooLarge
	}
	if end > in.flushed+int64(len(in.ring)) {
		return errRoom // the machine's window is smaller than the ring: a bug of ours
	}
	n := copy(in.ring[off%int64(len(in.ring)):], data)
	copy(in.ring, data[n:])
	in.whole = received
	return nil
}

var errRoom = errors.New("upload overruns its buffer")

// pending returns how many bytes wait to be flushed.
func (in *intake) pending() int64 { return in.whole - in.flushed }

// room reports whether another n bytes fit behind those that have come.
func (in *intake) room(n int64) bool {
	if in.text {
		n++ // a CR that the decoder holds back
	}
	return in.pending()+n <= int64(len(in.ring))
}

// flush writes the file's bytes up to the given offset to the store. A worker
// runs it, while the loop continues to add bytes behind them.
func (in *intake) flush(w io.WriterAt, from, to int64) error {
	for from < to {
		at := from % int64(len(in.ring))
		piece := in.ring[at:min(int64(len(in.ring)), at+to-from)]
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
