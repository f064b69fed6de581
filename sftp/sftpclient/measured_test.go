package sftpclient

import "time"

// A measured describes the path to the server, as the Client measures it.
type measured struct {
	Conns, Sessions int           // how many are open
	Window          int           // how many bytes may be in flight
	InFlight        int           // how many bytes are in flight
	RoundTrip       time.Duration // the shortest recent round trip; 0 if not known yet
	Rate            int64         // the best recent rate, in bytes per second
	ReadBytes       int           // most bytes that one request may read
	WriteBytes      int           // most bytes that one request may write
}

func (c *Client) measure() measured {
	s := c.mux.State()
	return measured{
		Conns: s.Conns, Sessions: s.Sessions, Window: s.Window, InFlight: s.InFlight,
		RoundTrip: s.RoundTrip, Rate: s.Rate, ReadBytes: c.server.ReadChunk, WriteBytes: c.server.WriteChunk,
	}
}
