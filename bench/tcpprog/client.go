package tcpprog

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// A Client makes requests, and checks whether a server sends the right answer.
type Client struct {
	Addr      string
	TLS       bool // use TLS, and accept any certificate
	Close     bool // Close, Size and Encrypted are the same as in the server's Options
	Size      int
	Encrypted bool

	Path string // path of the request; "" means "/"
	Want []byte // the expected answer; nil means Body(Size)
}

// ErrWrong means that an answer differs from the expected one.
var ErrWrong = errors.New("wrong answer")

// Dial connects to the server. The connection, with its TLS handshake, must be complete within the
// time `within`.
func (c Client) Dial(ctx context.Context, within time.Duration) (net.Conn, error) {
	d := &net.Dialer{Timeout: within}
	if !c.TLS {
		return d.DialContext(ctx, "tcp4", c.Addr)
	}
	// The certificate need not be checked: the server runs on this machine, and was started for
	// this test.
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
	return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp4", c.Addr)
}

// Request returns a request that is equal to the requests of wrk.
func (c Client) Request() []byte {
	connection := ""
	if c.Close {
		connection = "Connection: close\r\n"
	}
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", cmp.Or(c.Path, "/"), c.Addr, connection)
}

// Read reads an answer, and returns an error if any part of it is wrong.
func (c Client) Read(r *bufio.Reader) error {
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxSize+2*aes.BlockSize))
	if err != nil {
		return err
	}
	want := c.Want
	if want == nil {
		want = Body(c.Size)
	}
	if c.Encrypted {
		if body, err = decrypt(body); err != nil {
			return fmt.Errorf("%w: %w", ErrWrong, err)
		}
	}
	switch {
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: status %s", ErrWrong, answer.Status)
	case len(answer.TransferEncoding) > 0:
		return fmt.Errorf("%w: transfer encoding %q, where all others tell the length", ErrWrong, strings.Join(answer.TransferEncoding, ", "))
	case !bytes.Equal(body, want):
		return fmt.Errorf("%w: a body of %d bytes, and not the %d expected", ErrWrong, len(body), len(want))
	case answer.Close != c.Close:
		return fmt.Errorf("%w: to be closed behind it: %t, and not %t", ErrWrong, answer.Close, c.Close)
	}
	return nil
}

func decrypt(body []byte) ([]byte, error) {
	if len(body) < 2*aes.BlockSize || len(body)%aes.BlockSize != 0 {
		return nil, fmt.Errorf("%d bytes are not encrypted by AES-128-CBC", len(body))
	}
	block, err := aes.NewCipher([]byte(aesKey))
	if err != nil {
		return nil, err
	}
	text := bytes.Clone(body[aes.BlockSize:])
	cipher.NewCBCDecrypter(block, body[:aes.BlockSize]).CryptBlocks(text, text)
	pad := int(text[len(text)-1])
	if pad < 1 || pad > aes.BlockSize || !bytes.HasSuffix(text, bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errors.New("what is decrypted has no padding")
	}
	return text[:len(text)-pad], nil
}

// A Load is the result of a load generator, which prints it as JSON after LoadPrefix.
type Load struct {
	Requests float64 `json:"requests"` // answered requests
	Seconds  float64 `json:"seconds"`
	Connect  float64 `json:"connect"` // number of connections that failed; the following counts are failures too
	Read     float64 `json:"read"`
	Write    float64 `json:"write"`
	Status   float64 `json:"status"`
	Timeout  float64 `json:"timeout"`
	P50      float64 `json:"p50_us"`
	P90      float64 `json:"p90_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
}

// LoadPrefix begins the line that contains a Load.
const LoadPrefix = "load: "

// Failed returns the number of failures of all kinds.
func (l Load) Failed() float64 { return l.Connect + l.Read + l.Write + l.Status + l.Timeout }

// Tried returns the number of requests, including those without an answer.
func (l Load) Tried() float64 { return l.Requests + l.Connect + l.Read + l.Write }
