package tcpprog

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"
)

// aesKey is not secret: only the work is measured. The floors use it too.
const aesKey = "haul-bench-aes16"

// Body returns the body of an answer before it is encrypted. Clients know it.
func Body(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

// A Responder has a server's answer. Its methods may be called from several goroutines.
type Responder struct {
	Delay time.Duration // before the answer
	Close bool          // after the answer

	plain []byte       // padded if it will be encrypted
	block cipher.Block // nil without encryption
	head  []byte
	whole []byte // head and body, without encryption
}

// NewResponder returns the Responder for a server's options.
func NewResponder(o Options) (*Responder, error) {
	r := &Responder{Delay: o.Delay, Close: o.Close, plain: Body(o.Size)}
	length := o.Size
	if o.Encrypted {
		var err error
		if r.block, err = aes.NewCipher([]byte(aesKey)); err != nil {
			return nil, err
		}
		pad := aes.BlockSize - o.Size%aes.BlockSize // PKCS #7
		r.plain = append(r.plain, bytes.Repeat([]byte{byte(pad)}, pad)...)
		length = aes.BlockSize + len(r.plain)
	}
	connection := ""
	if o.Close {
		connection = "Connection: close\r\n"
	}
	r.head = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n", length, connection)
	if r.block == nil {
		r.whole = append(bytes.Clone(r.head), r.plain...)
	}
	return r, nil
}

// Answer returns the answer to a request. It is valid until the next call with the same scratch,
// which grows as needed, and must not be changed.
func (r *Responder) Answer(scratch *[]byte) []byte {
	if r.block == nil {
		return r.whole
	}
	*scratch = r.appendBody(append((*scratch)[:0], r.head...))
	return *scratch
}

// Body returns only the body, for servers that write heads themselves. The result has the same
// restrictions as that of Answer.
func (r *Responder) Body(scratch *[]byte) []byte {
	if r.block == nil {
		return r.plain
	}
	*scratch = r.appendBody((*scratch)[:0])
	return *scratch
}

// appendBody appends a random initialization vector and the body encrypted with it.
func (r *Responder) appendBody(b []byte) []byte {
	from := len(b)
	b = append(b, r.plain[:aes.BlockSize]...) // placeholder for the vector
	b = append(b, r.plain...)
	iv, text := b[from:from+aes.BlockSize], b[from+aes.BlockSize:]
	_, _ = rand.Read(iv) // it never fails: a program without random numbers ends
	cipher.NewCBCEncrypter(r.block, iv).CryptBlocks(text, text)
	return b
}

var emptyLine = []byte("\r\n\r\n")

// RequestEnd returns the length of the request at the beginning of data, or 0 if it is
// incomplete.
func RequestEnd(data []byte) int {
	i := bytes.Index(data, emptyLine)
	if i < 0 {
		return 0
	}
	return i + len(emptyLine)
}

// MaxRequest is the longest accepted request, in bytes.
const MaxRequest = 4 << 10

// A Scratch has the buffers for serving a request.
type Scratch struct {
	In  [MaxRequest]byte
	Out []byte
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// Serve answers the requests of a connection until it ends, as a blocking
// handler does.
func (r *Responder) Serve(c net.Conn) {
	s := scratches.Get().(*Scratch)
	defer scratches.Put(s)
	for r.one(c, s) && !r.Close {
	}
}

// ServeWaiting does the same, with a function that waits until there is something to read: a
// waiting connection needs no buffer.
func (r *Responder) ServeWaiting(c net.Conn, wait func() error) {
	for again := true; again && wait() == nil; {
		s := scratches.Get().(*Scratch)
		again = r.one(c, s) && !r.Close
		scratches.Put(s)
	}
}

// one answers a request, and reports whether another one may follow.
func (r *Responder) one(c net.Conn, s *Scratch) bool {
	n := 0
	for RequestEnd(s.In[:n]) == 0 {
		if n == len(s.In) {
			return false
		}
		got, err := c.Read(s.In[n:])
		n += got
		if err != nil {
			return false
		}
	}
	if r.Delay > 0 {
		time.Sleep(r.Delay)
	}
	answer := r.Answer(&s.Out)
	if f, ok := c.(finisher); ok && r.Close {
		_, err := f.Finish(answer)
		return err == nil
	}
	_, err := c.Write(answer)
	return err == nil
}

// A finisher is a connection that can mark the last bytes to be sent.
type finisher interface{ Finish(b []byte) (int, error) }
