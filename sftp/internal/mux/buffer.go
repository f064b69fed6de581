package mux

import (
	"sync"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// bufferSizes lists the sizes of data buffers in bytes: one for a small file, one for a request of
// the size that every server accepts, and one for the largest request. Each has room for a header
// in front.
var bufferSizes = [...]int{4<<10 + WriteHead, wire.SureData + WriteHead, wire.MaxPacket + WriteHead}

// WriteHead is the room in bytes for the header of a WRITE with the longest handle.
const WriteHead = wire.HeaderSize + 4 + wire.MaxHandle + 8 + 4

var bufferPools [len(bufferSizes)]sync.Pool

// A Buffer is memory from a pool.
type Buffer struct {
	Bytes []byte
	size  int // index in bufferSizes
}

// NewBuffer returns a buffer of at least n bytes. n is at most the largest size.
func NewBuffer(n int) *Buffer {
	size := 0
	for bufferSizes[size] < n {
		size++
	}
	if b, ok := bufferPools[size].Get().(*Buffer); ok {
		return b
	}
	return &Buffer{make([]byte, bufferSizes[size]), size}
}

// Free returns the buffer to its pool. The caller must not use it afterwards.
func (b *Buffer) Free() { bufferPools[b.size].Put(b) }

// written frees the buffer when the packet in it has been sent.
func (b *Buffer) written() { b.Free() }
