package sshconn

// sendBuffer is how many bytes the kernel may take from us that the peer has
// not. By itself Linux stops at some 4 MB, of which half counts, and a path of
// 100 ms then carries 39 MB/s. The receive buffer is left alone: to set it stops
// its growth.
const sendBuffer = 4 << 20

// WidenSend sets the send buffer of a connection, be it wrapped or not, if that
// makes it larger than it would become by itself.
func WidenSend(c any) {
	t, ok := c.(interface{ SetWriteBuffer(int) error })
	if n := LargestSend(); ok && n > 0 {
		_ = t.SetWriteBuffer(n) // slower without, but it works
	}
}

// sendBufferFor returns what to set, or 0 if that is best left alone. Of what is
// asked for, Linux allows no more than most (net.core.wmem_max), takes twice,
// and never goes above that again; of itself it goes up to tuned, the last
// value of net.ipv4.tcp_wmem. On many machines most is far below tuned.
func sendBufferFor(most, tuned int) int {
	if n := min(sendBuffer, most); 2*n > tuned {
		return n
	}
	return 0
}
