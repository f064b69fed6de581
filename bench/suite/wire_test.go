package suite

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// The data begins and ends where most of the bytes are: the bytes of the login and of the end of
// the connection do not count.
func TestSpan(t *testing.T) {
	samples := []sample{
		{ms(0), 0}, {ms(50), 3000}, {ms(100), 9000}, {ms(150), 9000},
		{ms(200), 40_000}, {ms(310), 1_040_000}, {ms(400), 2_040_000}, {ms(420), 2_041_000}, {ms(700), 2_042_000},
	}
	from, to, ok := span(samples)
	if !ok || from != ms(200) || to != ms(400) {
		t.Errorf("from %v to %v, %v", from, to, ok)
	}
	got := series(samples)
	if len(got) != 3 || got[0] != 0.031 || got[1] != 1 || got[2] != 1.001 {
		t.Errorf("in each step: %v", got)
	}
	for name, few := range map[string][]sample{"nothing": nil, "a login": samples[:4], "one look": {{ms(1), 1 << 30}}} {
		if _, _, ok := span(few); ok || series(few) != nil {
			t.Errorf("%s was taken for data", name)
		}
	}
}

func TestSeriesIsBounded(t *testing.T) {
	var samples []sample
	for i := range 1000 {
		samples = append(samples, sample{ms(10 * i), int64(i) * 100_000})
	}
	if n, most := len(series(samples)), int(record.SeriesTime/record.SeriesStep); n != most {
		t.Errorf("%d steps, at most %d", n, most)
	}
}

// Bytes over loopback are counted.
func TestWatch(t *testing.T) {
	w, err := watch(os.Getpid(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const size = 1 << 20
	sent := make(chan error, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_, err = c.Write(make([]byte, size))
			c.Close()
		}
		sent <- err
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 1<<16)
	for n := 0; n < size; {
		m, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * wireEvery)
	samples, packets := w.close()
	if len(samples) == 0 || samples[len(samples)-1].bytes < size {
		t.Errorf("%d samples, and less than was sent", len(samples))
	}
	if packets < 4 { // at least a handshake, data and an ACK
		t.Errorf("%d packets crossed", packets)
	}
	if _, err := watch(os.Getpid(), true, true); err == nil {
		t.Error("no error about a link's device that is not there")
	}
}
