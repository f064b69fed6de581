// Package doctor examines a TFTP server. It imitates curl, GRUB, U-Boot, UEFI firmware and other
// clients packet by packet, and reports what each of them would see and which rules the server
// breaks. It only needs the server's answers, so it can examine any server. It writes nothing to
// the server unless [Config.Upload] is set.
//
//	d, err := doctor.Examine(ctx, doctor.Config{Target: target})
//	if err != nil {
//		return err // the server does not even answer a plain request
//	}
//	_ = d.WriteText(os.Stdout)
//
// # How it works
//
// A persona (clients.go, checks.go, hostile.go) is a row of a table. The row holds the persona's
// request, and says how the persona judges the answer. Most personas fetch the whole file by a
// download (download.go, fetch.go), which follows the logic of one client. A persona sends and
// receives through its visit (visit.go), which has its own socket. Each fault becomes a [Finding]
// that names a [Rule] (rules.go). When all visits are over, compare.go checks that all personas
// that fetched the file received the same bytes.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Defaults and bounds of a run.
const (
	DefaultTimeout  = 10 * time.Second // time limit of one persona
	DefaultMaxBytes = 1 << 20          // largest number of bytes that each persona fetches
	MaxMaxBytes     = 1 << 30          // largest MaxBytes; all fetched bytes stay in memory until the run is over

	maxTogether = 4  // largest number of personas at the same time; boards and small servers cannot serve more
	maxRun      = 12 // time limit of a whole run, in multiples of Config.Timeout

	defaultMTU = 1500 // used if the MTU of the route is unknown
)

// Config says which server to examine, and bounds the effort.
type Config struct {
	Target   tftpclient.Target // an existing file on the server; its Mode is not used
	Timeout  time.Duration     // time limit of each persona; 0 means DefaultTimeout
	MaxBytes int64             // largest number of bytes to fetch, 1 to MaxMaxBytes; 0 means DefaultMaxBytes
	MTU      int               // MTU of the path, in bytes; 0 means the MTU of the route to the server
	Upload   string            // name of a file to upload, fetch and compare; "" uploads nothing

	waits waits // shorter waits for tests; zero means defaultWaits
}

// Check returns an error for values out of range, and for a target that is too long for a request.
func (c *Config) Check() error {
	switch {
	case c.Timeout < 0:
		return fmt.Errorf("timeout %v: must not be negative", c.Timeout)
	case c.MaxBytes < 0 || c.MaxBytes > MaxMaxBytes:
		return fmt.Errorf("max-bytes %d: choose 1 to %d", c.MaxBytes, MaxMaxBytes)
	case c.MTU < 0:
		return fmt.Errorf("MTU %d: must not be negative", c.MTU)
	case strings.IndexByte(c.Upload, 0) >= 0 || len(c.Upload) > transfer.MaxRequest/2:
		return fmt.Errorf("upload %q: no request can hold this name", c.Upload)
	}
	return c.Target.Check()
}

// Examine runs all personas against a server. That takes a few seconds with a good server, and at
// most twelve times Timeout.
//
// If the server does not even answer a plain request for the file, Examine returns no diagnosis but
// an error: the *[transfer.Error] of the server, or an error that wraps [transfer.ErrSilent].
func Examine(ctx context.Context, c Config) (*Diagnosis, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("doctor: %v: %w", c.Target, err)
	}
	e, err := c.env(ctx)
	if err != nil {
		return nil, fmt.Errorf("doctor: %v: %w", c.Target, err)
	}
	defer e.sockets.close()
	if e.empty, err = checkAnswers(ctx, e); err != nil {
		return nil, fmt.Errorf("doctor: %v at %v: %w", c.Target, e.server, err)
	}
	limited, cancel := context.WithTimeout(ctx, maxRun*e.timeout)
	defer cancel()
	visits, err := runAll(limited, e)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("doctor: %v: %w", c.Target, err)
	}
	compare(visits)
	return conclude(c.Target.String(), e, visits), nil
}

// env looks up the server and fills in defaults.
func (c *Config) env(ctx context.Context) (*env, error) {
	server, err := netip.ParseAddr(c.Target.Host) // parse an address here: the resolver would drop its zone
	if err != nil {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", c.Target.Host)
		if err != nil {
			return nil, err
		}
		server = ips[0]
	}
	e := &env{
		server: netip.AddrPortFrom(server.Unmap(), cmp.Or(c.Target.Port, transfer.Port)), name: c.Target.Name, upload: c.Upload,
		maxBytes: cmp.Or(c.MaxBytes, DefaultMaxBytes), timeout: cmp.Or(c.Timeout, DefaultTimeout), mtu: c.MTU,
		waits: cmp.Or(c.waits, defaultWaits), sockets: &sockets{},
	}
	if e.mtu == 0 {
		if e.mtu, err = udp.PathMTU(e.server.Addr()); err != nil {
			e.mtu = defaultMTU
		}
	}
	return e, nil
}

// checkAnswers requests the file without options (RFC 1350), and reports whether it is empty.
func checkAnswers(ctx context.Context, e *env) (empty bool, err error) {
	v, err := newVisit(ctx, e, "", "")
	if err != nil {
		return false, err
	}
	defer v.close()
	var d download
	p, ok := v.ask(d.request(v))
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !ok:
		return false, fmt.Errorf("%w to a plain read request, sent %d times", transfer.ErrSilent, maxTries)
	case p.op == transfer.ErrorPacket:
		return false, &transfer.Error{Code: transfer.ErrorCode(p.block), Message: p.text(), Remote: true}
	case p.op == transfer.OptionAck:
		v.sendAbort("closed") // the tftp-hpa persona will report this fault
		return false, nil
	case p.op != transfer.Data:
		return false, fmt.Errorf("%v came to a plain read request", p)
	}
	v.sendAbort("closed")
	return len(p.data) == 0, nil
}

// personas returns all personas, in the order of the report.
func personas() []persona {
	all := append([]persona(nil), clients...)
	all = append(all, firmware...)
	return append(all, checks...)
}

// runAll runs the personas and returns their visits, in the order of the tables.
func runAll(ctx context.Context, e *env) ([]*visit, error) {
	all := personas()
	if e.upload != "" {
		all = append(all, uploader)
	}
	visits, errs := make([]*visit, len(all)), make([]error, len(all))
	run := func(i int) { visits[i], errs[i] = all[i].visit(ctx, e) }
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxTogether)
	for i, p := range all {
		if p.stage == waiting {
			wg.Go(func() { run(i) })
		}
	}
	for i, p := range all {
		if p.stage == together {
			slots <- struct{}{}
			wg.Go(func() { run(i); <-slots })
		}
	}
	wg.Wait()
	for i, p := range all {
		if p.stage == alone {
			run(i)
		}
	}
	return visits, errors.Join(errs...)
}

// visit runs one persona.
func (p persona) visit(ctx context.Context, e *env) (*visit, error) {
	v, err := newVisit(ctx, e, p.name, cmp.Or(p.sends, p.get.describe()))
	if err != nil {
		return nil, err
	}
	defer v.close()
	begun := time.Now()
	d := p.get
	v.trusts = d.trustsSize
	if p.act != nil {
		p.act(v, &d)
	} else {
		d.run(v)
	}
	v.report.Took = time.Since(begun)
	return v, nil
}

// conclude combines the findings of the visits into a diagnosis.
func conclude(target string, e *env, visits []*visit) *Diagnosis {
	d := &Diagnosis{Target: target, Server: e.server.String()}
	broken := map[string]bool{}
	size := int64(0)
	for _, v := range visits {
		r := v.report
		if r.skipped {
			r.Verdict = Skipped
		}
		for _, f := range r.Findings {
			r.Verdict = max(r.Verdict, f.Verdict)
			broken[f.Rule] = true
		}
		d.Reports = append(d.Reports, *r)
		if r.Verdict > Skipped {
			d.Verdict = max(d.Verdict, r.Verdict)
		}
		size = max(size, v.size)
	}
	for _, r := range rules {
		if broken[r.Name] {
			d.Broken = append(d.Broken, r)
		}
	}
	if blocks := size/transfer.DefaultBlockSize + 1; blocks > 65535 {
		d.Notes = append(d.Notes, fmt.Sprintf("the file has %d blocks of 512 bytes: NetBSD's pxeboot, syslinux.efi and Netgear's NMRP cannot count beyond 65535", blocks))
	}
	return d
}
