package mux

import (
	"sync"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// bufferSizes are the sizes of buffers for data, in bytes: for a small file, for the request
// that every server takes, and for the largest one. Each has room for a header in front.
var bufferSizes = [...]int{4<<10 + WriteHead, wire.SureData + WriteHead, wire.MaxPacket + WriteHead}

// WriteHead is room for the header of a WRITE with the longest handle, in bytes.
const WriteHead = wire.HeaderSize + 4 + wire.MaxHandle + 8 + 4

var bufferPools [len(bufferSizes)]sync.Pool

// A Buffer is memory from a pool.
type Buffer struct {
	Bytes []byte
	size  int // in bufferSizes
}

// NewBuffer returns a buffer of n bytes or more, at most the largest size.
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
