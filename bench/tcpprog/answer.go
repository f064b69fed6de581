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

// aesKey is the key for encrypted answers. It need not be secret, because only the work of
// encryption is measured. The floors use the same key.
const aesKey = "haul-bench-aes16"

// Body returns the body of an answer before encryption. Clients compare answers with it.
func Body(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

// A Responder makes a server's answers. Several goroutines may call its methods at the same time.
type Responder struct {
	Delay time.Duration // how long to wait before an answer
	Close bool          // close the connection after an answer

	plain []byte       // the body before encryption; with padding if it is encrypted
	block cipher.Block // the cipher; nil without encryption
	head  []byte
	whole []byte // head and body of the answer; nil with encryption
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

// Answer returns the answer to a request. The caller must not change the answer. It is valid until
// the next call with the same scratch, which grows as needed.
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
	b = append(b, r.plain[:aes.BlockSize]...) // placeholder for the initialization vector
	b = append(b, r.plain...)
	iv, text := b[from:from+aes.BlockSize], b[from+aes.BlockSize:]
	_, _ = rand.Read(iv) // never fails: if there are no random numbers, the program exits
	cipher.NewCBCEncrypter(r.block, iv).CryptBlocks(text, text)
	return b
}

var emptyLine = []byte("\r\n\r\n")

// RequestEnd returns the length of the request at the beginning of data, or 0 if the request is
// incomplete.
func RequestEnd(data []byte) int {
	i := bytes.Index(data, emptyLine)
	if i < 0 {
		return 0
	}
	return i + len(emptyLine)
}

// MaxRequest is the length of the longest accepted request, in bytes.
const MaxRequest = 4 << 10

// A Scratch holds the buffers for reading and answering a request.
type Scratch struct {
	In  [MaxRequest]byte
	Out []byte
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// Serve answers the requests of a connection until the connection is closed, or the answer must end
// it. It blocks as an ordinary handler does.
func (r *Responder) Serve(c net.Conn) {
	s := scratches.Get().(*Scratch)
	defer scratches.Put(s)
	for r.one(c, s) && !r.Close {
	}
}

// ServeWaiting is like Serve, but calls `wait` before each request, which waits until there is data
// to read. So a connection needs no buffer while it waits.
func (r *Responder) ServeWaiting(c net.Conn, wait func() error) {
	for again := true; again && wait() == nil; {
		s := scratches.Get().(*Scratch)
		again = r.one(c, s) && !r.Close
		scratches.Put(s)
	}
}

// one reads and answers one request. It returns false if no further request can follow.
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

// A finisher is a connection with a method to send its last bytes.
type finisher interface{ Finish(b []byte) (int, error) }
