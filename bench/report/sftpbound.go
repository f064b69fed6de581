package report

import "time"

// An sftpModel models how long one file takes by SFTP over a long path, if all connections begin
// at once and only TCP and the processors limit them.
type sftpModel struct {
	Trip       time.Duration // round trip of the path
	LoginTrips float64       // number of round trips before the first byte of data can be sent
	Start      time.Duration // total processor time of the programs' start and the logins
	Conns      int           // number of connections, at least 1
	Window     int64         // bytes that TCP sends in the first round trip: ten segments (RFC 6928)
	MaxWindow  int64         // largest number of bytes that one connection moves in a round trip; Window doubles up to this
	Rate       float64       // rate at which the processors of both ends can encrypt and move data, in bytes a second
}

// newSFTPModel returns the model for haul and a stock sshd over a path with the given round trip:
// eleven round trips for the login, the channel and the first request, and eight connections. 3.7
// MB is what one connection has in flight with the buffers of a stock Linux. The rate is that of
// the machine behind the figures in docs/benchmarks.md.
func newSFTPModel(trip time.Duration) sftpModel {
	return sftpModel{
		Trip: trip, LoginTrips: 11, Start: 60 * time.Millisecond, Conns: 8,
		Window: 10 * 1460, MaxWindow: 3_700_000, Rate: 610e6,
	}
}

// bound returns the minimum time for a file of `size` bytes.
func (m sftpModel) bound(size int64) time.Duration {
	took := m.Start.Seconds() + m.LoginTrips*m.Trip.Seconds()
	left, window, most := float64(max(size, 0)), float64(m.Window), float64(m.MaxWindow)
	for left > 0 {
		speed := m.Rate
		if m.Trip > 0 {
			speed = min(speed, float64(m.Conns)*window/m.Trip.Seconds())
		}
		flight := speed * m.Trip.Seconds()
		if m.Trip <= 0 || window >= most || left <= flight {
			took += left / speed // from here on the speed is constant
			break
		}
		left, took, window = left-flight, took+m.Trip.Seconds(), min(2*window, most)
	}
	return time.Duration(took * float64(time.Second))
}
