package sshconn

import "testing"

func TestSendBuffer(t *testing.T) {
	for _, test := range []struct {
		name              string
		most, tuned, want int
	}{
		{"as Linux comes", 212992, 4194304, 0},
		{"a server's", 16 << 20, 4194304, sendBuffer},
		{"just as much", 2 << 20, 4 << 20, 0},
		{"a little more", 2<<20 + 1, 4 << 20, 2<<20 + 1},
		{"tuned for a fast network", 64 << 20, 64 << 20, 0},
		{"not known", 0, 0, 0},
	} {
		if got := sendBufferFor(test.most, test.tuned); got != test.want {
			t.Errorf("%s: sendBufferFor(%d, %d) = %d, want %d", test.name, test.most, test.tuned, got, test.want)
		}
	}
}
