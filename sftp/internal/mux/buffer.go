package mux

import (
	"sync"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// bufferSizes lists the possible sizes of a Buffer in bytes: one for a small file, one for a
// request of the size that every server accepts, and one for the largest request. Each size
// includes WriteHead bytes for a header before the data.
var bufferSizes = [...]int{4<<10 + WriteHead, wire.SureData + WriteHead, wire.MaxPacket + WriteHead}

// WriteHead is the largest size of a WRITE's header in bytes, for a handle of wire.MaxHandle bytes.
const WriteHead = wire.HeaderSize + 4 + wire.MaxHandle + 8 + 4

var bufferPools [len(bufferSizes)]sync.Pool

// A Buffer is a piece of memory from one of the pools.
type Buffer struct {
	Bytes []byte
	size  int // index into bufferSizes
}

// NewBuffer returns a buffer of at least n bytes; n is at most the largest of bufferSizes.
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

// written is called when the packet in the buffer has been sent. It frees the buffer.
func (b *Buffer) written() { b.Free() }
