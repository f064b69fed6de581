// Package tftpclient is a TFTP client (RFC 1350, 2347, 2348, 2349, 7440).
//
// A [Client] fetches and sends files. Any number of its transfers may run at once:
//
//	var c tftpclient.Client
//	res, err := c.GetFile(ctx, "tftp://host/boot/kernel", "kernel")
//
// A [Pool] runs thousands of transfers at once over few sockets, and reports the end of each with a
// callback.
//
// The page https://github.com/haul-project/haul/blob/main/docs/tftp.md lists each rule of the RFCs
// and each deviation from them.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
//
// # How the client works
//
// A Client runs each transfer as an exchange, with a goroutine and a socket of its own
// (exchange.go).
//
// A loop of a Pool runs many transfers. In each turn (poolrun.go) it takes new requests from its
// inbox (poolinbox.go), begins those for which there is a socket (poolsockets.go), and passes
// packets to their transfers (poolreceive.go). Then it makes these transfers send what is due, and
// ends those that are done (poolloop.go). A transfer (pooltransfer.go) decides which packets to
// send, and when. Workers make its calls that may wait for a disk (poolfile.go).
package tftpclient
