package tcp

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A deadline that is longer ago than nanoseconds can say is past, before the first call
// has waited and after.
func TestDeadlinesLongAgo(t *testing.T) {
	for _, year := range []int{-5000, 2, 1000, 1385, 1500, 1677, 1969, 1970} {
		for _, polled := range []bool{false, true} {
			ours, theirs := pair(t, Options{})
			if polled {
				if _, err := ours.SyscallConn(); err != nil {
					t.Fatal(err)
				}
			}
			// What is there would be given out, where the deadline does not hold.
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
