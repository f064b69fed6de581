package sshconn

// sendBuffer is how many bytes that the peer has not acknowledged the kernel may buffer. By default
// Linux stops at some 4 MB, of which half counts, and a path of 100 ms then carries 39 MB/s. The
// size of the receive buffer is not set, because setting it would stop its growth.
const sendBuffer = 4 << 20

// WidenSend sets the send buffer of a connection, wrapped or not, if that makes the buffer larger
// than it would become by itself.
func WidenSend(c any) {
	t, ok := c.(interface{ SetWriteBuffer(int) error })
	if n := LargestSend(); ok && n > 0 {
		_ = t.SetWriteBuffer(n) // if this fails, the connection is only slower
	}
}

// sendBufferFor returns the size to set, or 0 to leave the buffer alone. Linux limits the requested
// size to most (net.core.wmem_max), doubles it, and then never grows the buffer. Without a request
// the buffer grows up to tuned, the last value of net.ipv4.tcp_wmem. On many machines most is far
// below tuned.
func sendBufferFor(most, tuned int) int {
	if n := min(sendBuffer, most); 2*n > tuned {
		return n
	}
	return 0
}
