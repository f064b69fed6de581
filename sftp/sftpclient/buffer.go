package sftpclient

import (
	"sync"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// The sizes in which memory for data is lent out, in bytes: a small file, the
// request that every server takes, and the largest one. Each has room for a
// header in front.
var bufferSizes = [...]int{4<<10 + writeHead, wire.SureData + writeHead, wire.MaxPacket + writeHead}

// writeHead is room for the header of a WRITE with the longest handle.
const writeHead = wire.HeaderSize + 4 + wire.MaxHandle + 8 + 4

var bufferPools [len(bufferSizes)]sync.Pool

// A buffer is memory on loan.
type buffer struct {
	b    []byte
	size int // in bufferSizes
}

// newBuffer returns a buffer of n bytes or more, at most the largest size.
func newBuffer(n int) *buffer {
	size := 0
	for bufferSizes[size] < n {
		size++
	}
	if b, ok := bufferPools[size].Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, bufferSizes[size]), size}
}

// free gives it back. Nobody may use it any more.
func (b *buffer) free() { bufferPools[b.size].Put(b) }
