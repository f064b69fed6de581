package bootload

import (
	"bytes"
	"hash/maphash"
)

// A digest identifies the content of a file, so that files can be compared.
type digest struct {
	sum  uint64
	size int64
}

// A content computes the hash of a file with little memory, even if pieces arrive out of order.
type content struct {
	hash  maphash.Hash
	at    int64
	ahead []piece // pieces that arrived before their turn; together they are smaller than a window
}

type piece struct {
	off  int64
	data []byte
}

func (c *content) begin(seed maphash.Seed) {
	c.hash.SetSeed(seed)
	c.at, c.ahead = 0, c.ahead[:0]
}

// write adds the next bytes to the hash.
func (c *content) write(b []byte) {
	_, _ = c.hash.Write(b) // cannot fail
	c.at += int64(len(b))
}

// writeAt adds a piece that may arrive before its turn. No piece arrives twice.
func (c *content) writeAt(off int64, b []byte) {
	if off != c.at {
		c.ahead = append(c.ahead, piece{off, bytes.Clone(b)})
		return
	}
	c.write(b)
	for i := 0; i < len(c.ahead); {
		if c.ahead[i].off != c.at {
			i++
			continue
		}
		c.write(c.ahead[i].data)
		c.ahead[i] = c.ahead[len(c.ahead)-1]
		c.ahead = c.ahead[:len(c.ahead)-1]
		i = 0
	}
}

func (c *content) digest() digest { return digest{c.hash.Sum64(), c.at} }
