package tcp

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A deadline before the range of nanoseconds is in the past, before the first call has waited and
// after.
func TestDeadlinesLongAgo(t *testing.T) {
	for _, year := range []int{-5000, 2, 1000, 1385, 1500, 1677, 1969, 1970} {
		for _, polled := range []bool{false, true} {
			ours, theirs := pair(t, Options{})
			if polled {
				if _, err := ours.SyscallConn(); err != nil {
					t.Fatal(err)
				}
			}
			// If the deadline did not apply, these bytes would be returned.
			_, _ = theirs.Write([]byte("x"))
			_ = theirs.CloseWrite()
			if err := ours.SetDeadline(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
				t.Fatal(err)
			}
			if n, err := ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("year %d, polled %t: Read: %d, %v", year, polled, n, err)
			}
			if n, err := ours.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("year %d, polled %t: Write: %d, %v", year, polled, n, err)
			}
			_ = ours.Close()
			_ = theirs.Close()
		}
	}
}

// After a nudge has been undone, a deadline is the same as before, however far away it is:
// nanoseconds would wrap around.
func TestDeadlinesAfterNudge(t *testing.T) {
	for _, year := range []int{-5000, 2, 1000, 1385, 1500, 1677, 1678, 1970, 2262, 2263, 2554, 3000, 9999} {
		ours, theirs := pair(t, Options{})
		if _, err := ours.SyscallConn(); err != nil { // before the poller knows it, there is no nudge
			t.Fatal(err)
		}
		_, _ = theirs.Write([]byte("x"))
		if err := ours.WaitReadable(); err != nil {
			t.Fatal(err)
		}
		past := year < time.Now().Year()
		if err := ours.SetReadDeadline(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
		c := ours.c
		c.SetIdle(true)
		c.Nudge()
		c.NotIdle()
		// Bytes that WaitReadable may have consumed are returned in spite of the deadline.
		if n, err := ours.Read(make([]byte, 1)); n == 0 && !past {
			t.Errorf("year %d: Read: %v", year, err)
		}
		_, _ = theirs.Write([]byte("y"))
		if past {
			if n, err := ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("year %d: Read: %d, %v", year, n, err)
			}
		} else if n, err := ours.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("year %d: Read: %d, %v", year, n, err)
		}
		_ = ours.Close()
		_ = theirs.Close()
	}
}
