// Package sshconn is what SSH connections of packages sftp and sftpclient run over: buffers
// that spare system calls, and options of the socket.
package sshconn
