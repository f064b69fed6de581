package sshconn

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The measured time does not include what the dialer does before it connects. The dialer's own hook is
// called as well.
func TestTimeConnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d net.Dialer
	stop := errors.New("stop")
	called := 0
	d.Control = func(string, string, syscall.RawConn) error {
		if called++; called > 1 {
			return stop
		}
		return nil
	}
	trip := TimeConnect(&d)
	if got := trip(); got != 0 {
		t.Errorf("before connecting: %v", got)
	}
	begin := time.Now()
	c, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if got := trip(); got <= 0 || got > time.Since(begin) {
		t.Errorf("%v, of %v in all", got, time.Since(begin))
	}
	if _, err := d.Dial("tcp", l.Addr().String()); !errors.Is(err, stop) {
		t.Errorf("the dialer's own hook was not called: %v", err)
	}
}

// If the dialer tries several addresses, the time counts from the first attempt, because the successful
// attempt may have begun then.
func TestTimeConnectOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d net.Dialer
		trip := TimeConnect(&d)
		for range 2 {
			if err := d.Control("tcp", "192.0.2.1:22", nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := trip(); got != 2*time.Second {
			t.Errorf("%v since the first address was tried, want 2s", got)
		}
	})
}
