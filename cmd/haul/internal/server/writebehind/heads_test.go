package writebehind

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// frameOf returns a frame of HTTP/2 with n bytes.
func frameOf(kind, flags byte, n int) string {
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, 1}) + string(make([]byte, n))
}

// If a header is not completed in time, the connection is closed, whatever arrives meanwhile.
// Complete headers, and data between headers, do not close it, however the bytes are split.
func TestHeadTime(t *testing.T) {
	begin := string(make([]byte, prefaceSize)) + frameOf(4, 0, 0)
	half := frameOf(headersFrame, 0, 40)
	whole := frameOf(headersFrame, endHeaders, 40)
	rest := frameOf(continuationFrame, endHeaders, 40)
	data := frameOf(0, endHeaders, 1000) // END_HEADERS means something else here
	type step struct {
		send string
		wait time.Duration
	}
	var drip []step
	for range 30 {
		drip = append(drip, step{frameOf(continuationFrame, 0, 1), time.Second})
	}
	for what, x := range map[string]struct {
		steps []step
		ends  time.Duration // 0 means that it does not end
	}{
		"silence":                {[]step{{begin + half, time.Hour}}, headTime},
		"a frame without an end": {[]step{{begin + whole[:len(whole)-1], time.Hour}}, headTime},
		"small frames":           {append([]step{{begin + half, time.Second}}, drip...), headTime},
		"data within":            {[]step{{begin + half, 9 * time.Second}, {data, time.Hour}}, headTime},
		"the second head":        {[]step{{begin + whole + whole + half, time.Hour}}, headTime},
		"late, after a good one": {[]step{{begin + half, 9 * time.Second}, {rest + half, time.Hour}}, 9*time.Second + headTime},
		"good, in pieces":        {[]step{{begin[:7], time.Hour}, {begin[7:] + half[:3], time.Hour}, {half[3:20], 9 * time.Second}, {half[20:] + rest, time.Hour}}, 0},
		"good, one by one":       {[]step{{begin + whole, time.Hour}, {whole + data, time.Hour}, {data[:500], time.Hour}, {data[500:] + whole, time.Hour}}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, peer := pair(t)
				began := time.Now()
				over := make(chan struct{})
				go func() {
					defer close(over)
					_, err := io.Copy(io.Discard, struct{ io.Reader }{c})
					if took := time.Since(began); took != x.ends || err != nil {
						t.Errorf("the reader has the end after %v, %v; want %v", took, err, x.ends)
					}
					_ = c.Close()
				}()
				for _, s := range x.steps {
					if _, err := io.WriteString(peer, s.send); err != nil {
						break
					}
					time.Sleep(s.wait)
				}
				if x.ends == 0 {
					x.ends = time.Since(began)
					_ = peer.Close()
				}
				<-over
			})
		})
	}
}

// pieces is a connection on which a request header arrives in the pieces that net/http's server
// reads: the beginning of a frame, and then the rest.
type pieces struct {
	net.Conn
	all  string
	sent int
}

func (p *pieces) Read(b []byte) (int, error) {
	n := copy(b, p.all[p.sent:])
	p.sent = (p.sent + n) % len(p.all)
	return n, nil
}

// requests returns a function that reads a request.
func requests() (read func()) {
	c := &Conn{Conn: &pieces{all: frameOf(headersFrame, endHeaders, 40)}, headTime: time.Hour}
	var b [40]byte
	return func() {
		_, _ = c.Read(b[:frameHead])
		_, _ = c.Read(b[:])
	}
}

// The time limit for headers causes no allocation for a request.
func TestHeadsDoNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, requests()); n > 0 {
		t.Errorf("a request takes %v allocations", n)
	}
}

func BenchmarkHeads(b *testing.B) {
	read := requests()
	for b.Loop() {
		read()
	}
}
