package load

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// Run makes the transfers, and reports on them. The Report counts failed transfers; Run returns no
// error for them. Run returns an error if it could not begin or complete the load: if ctx has
// ended, if no server answers ([transfer.ErrSilent]) or listens (syscall.ECONNREFUSED), or if the
// process may not open enough sockets. The Report then covers the transfers up to that point.
func (l *Load) Run(ctx context.Context) (Report, error) {
	if err := l.Check(); err != nil {
		return Report{}, err
	}
	e := l.withDefaults()
	if err := ownprocess.MayOpen(e.Concurrency, "transfers"); err != nil {
		return Report{}, err
	}
	servers, err := lookUp(ctx, e.Target)
	if err != nil {
		return Report{}, err
	}
	var report Report
	for _, server := range servers {
		heard := false
		if report, heard, err = e.at(ctx, server); err == nil || heard || ctx.Err() != nil {
			break
		}
	}
	if err == nil && report.silent() {
		err = fmt.Errorf("nothing came in %v (is a server there, and does a firewall let UDP through?): %w", e.Timeout, transfer.ErrSilent)
	}
	return report, err
}

// at runs the load against one of the server's addresses. heard reports whether the server answered
// there.
func (l *Load) at(ctx context.Context, server netip.AddrPort) (report Report, heard bool, err error) {
	references := newReferences()
	if l.Warmup > 0 {
		warm := *l
		warm.Transfers, warm.Duration, warm.Rate = l.Warmup, 0, 0
		warm.Concurrency = min(l.Concurrency, l.Warmup)
		warm.Loops = min(l.Loops, warm.Concurrency)
		r := newRun(&warm, server, references, true)
		if _, err = r.do(ctx); err != nil {
			return Report{}, r.heard(), fmt.Errorf("warm-up: %w", err)
		}
	}
	r := newRun(l, server, references, false)
	report, err = r.do(ctx)
	if err == nil && l.Verify {
		err = l.verify(ctx, server, &report)
	}
	return report, r.heard(), err
}

// verify fetches the uploaded files, and adds the number of correct ones and the failures to the
// report.
func (l *Load) verify(ctx context.Context, server netip.AddrPort, report *Report) error {
	back := *l
	back.Write, back.Pattern, back.Rate, back.Duration = false, true, 0, 0
	back.Transfers = int(min(int64(l.Names), report.Transfers))
	back.Concurrency = min(l.Concurrency, max(1, back.Transfers))
	back.Loops = min(l.Loops, back.Concurrency)
	if back.Transfers == 0 {
		return nil
	}
	fetched, err := newRun(&back, server, newReferences(), false).do(ctx)
	report.Verified = fetched.Transfers - fetched.Failed
	report.Failed += fetched.Failed
	for text, n := range fetched.Errors {
		report.Errors["fetched again: "+text] += n
	}
	return err
}

// lookUp returns the addresses of the host, with the port.
func lookUp(ctx context.Context, t tftpclient.Target) ([]netip.AddrPort, error) {
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", t.Host)
	if err != nil {
		return nil, err // the error names the host
	}
	servers := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		servers[i] = netip.AddrPortFrom(ip.Unmap(), cmp.Or(t.Port, transfer.Port))
	}
	return servers, nil
}
