"""What call chains are for: chains as the kernel has them, and the table that decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.cpu_profile.categories import Category, bare, read_table, shipped_table
from isolane.cpu_profile.sampled_stacks import SampledStack
from isolane.errors import SpecError

THREAD = "ret_from_fork_asm ret_from_fork kthread"
SOFTIRQ = f"{THREAD} smpboot_thread_fn run_ksoftirqd handle_softirqs net_rx_action __napi_poll"
VETH = f"{SOFTIRQ} veth_poll veth_xdp_rcv.constprop.0"
RECEIVE = f"{VETH} netif_receive_skb_list_internal __netif_receive_skb_list_core ip_list_rcv"
FORWARD = f"{RECEIVE} ip_sublist_rcv ip_forward"
SEND = f"{FORWARD} ip_output ip_finish_output2 __dev_queue_xmit"
TICK = "asm_sysvec_apic_timer_interrupt sysvec_apic_timer_interrupt"
SYSCALL = "entry_SYSCALL_64_after_hwframe do_syscall_64 x64_sys_call"
READ = f"{SYSCALL} __x64_sys_read ksys_read vfs_read"
RUN = f"{SYSCALL} __x64_sys_ioctl kvm_vcpu_ioctl kvm_arch_vcpu_ioctl_run"

CHAINS = (
    ("driver", VETH),
    ("driver", f"{SEND} dev_hard_start_xmit veth_xmit"),
    ("driver", f"{SEND} dev_hard_start_xmit veth_xmit __dev_forward_skb eth_type_trans"),
    ("driver", f"{READ} tun_chr_read_iter tun_do_read"),
    ("driver", f"{READ} tun_chr_read_iter tun_do_read _copy_to_iter rep_movs_alternative"),
    ("driver", f"{SOFTIRQ} nobodys_poll nobodys_clean_ring"),
    ("driver", f"{SEND} dev_hard_start_xmit nobodys_start_xmit _raw_spin_lock"),
    ("driver", "asm_common_interrupt common_interrupt __handle_irq_event_percpu nobodys_msix"),
    ("network stack", SOFTIRQ),
    ("network stack", FORWARD),
    ("network stack", f"{FORWARD} _raw_spin_lock"),
    ("network stack", f"{FORWARD} _raw_spin_lock native_queued_spin_lock_slowpath"),
    ("network stack", f"{RECEIVE} nf_hook_slow nft_do_chain_ipv4 nft_do_chain nft_meta_get_eval"),
    ("network stack", f"{SEND} __qdisc_run htb_dequeue rb_next"),
    ("network stack", f"{THREAD} napi_threaded_poll napi_threaded_poll_loop"),
    ("network stack", f"{VETH} xdp_do_redirect dev_map_enqueue"),
    ("network stack", f"{FORWARD} function_that_nobody_named"),
    ("bridge and virtual switch", f"{SEND} dev_hard_start_xmit macvlan_start_xmit"),
    ("network stack", f"{SEND} dev_hard_start_xmit macvlan_start_xmit dev_queue_xmit"),
    ("bridge and virtual switch", f"{RECEIVE} br_handle_frame br_handle_frame_finish"),
    ("bridge and virtual switch", f"{RECEIVE} br_handle_frame br_fdb_update jhash"),
    ("memory", f"{VETH} build_skb __build_skb_around"),
    ("memory", f"{VETH} veth_convert_skb_to_xdp_buff skb_pp_cow_data page_pool_alloc_pages"),
    ("memory", f"{SEND} dev_hard_start_xmit veth_xmit kfree_skb_list_reason skb_release_data"),
    ("memory", f"{FORWARD} kfree"),
    ("memory", f"{FORWARD} skb_clone kmem_cache_alloc_noprof memset"),
    ("memory", "asm_exc_page_fault exc_page_fault handle_mm_fault"),
    ("scheduler and interrupts", f"{THREAD} napi_threaded_poll schedule __schedule"),
    ("scheduler and interrupts", f"{THREAD} schedule __schedule pick_next_task_fair update_curr"),
    ("scheduler and interrupts", f"{FORWARD} {TICK}"),
    ("scheduler and interrupts", f"{FORWARD} {TICK} __hrtimer_run_queues ktime_get"),
    ("network stack", f"{FORWARD} {TICK} irq_exit_rcu handle_softirqs net_rx_action"),
    ("scheduler and interrupts", f"{FORWARD} try_to_wake_up enqueue_task_fair not_named"),
    ("hypervisor and exits", RUN),
    ("hypervisor and exits", f"{RUN} vmx_vcpu_run __vmx_vcpu_run"),
    ("guest", f"{RUN} vcpu_enter_guest vmx_handle_exit_irqoff vmx_do_interrupt_irqoff"),
    ("scheduler and interrupts", f"{RUN} vmx_handle_exit_irqoff vmx_do_interrupt_irqoff {TICK}"),
    ("hypervisor and exits", f"{THREAD} vhost_task_fn vhost_worker handle_tx"),
    ("driver", f"{THREAD} vhost_task_fn vhost_worker handle_tx tun_sendmsg tun_get_user"),
    ("BPF", f"{VETH} bpf_prog_2dcbe4cd48ba1235_isl_demux"),
    ("BPF", f"{VETH} bpf_prog_2dcbe4cd48ba1235_isl_demux htab_map_hash jhash"),
    ("BPF", f"{SOFTIRQ} __traceiter_napi_poll bpf_trace_run4 bpf_trampoline_6442538345"),
    ("system calls", READ),
    ("system calls", f"{SYSCALL} __x64_sys_epoll_wait do_epoll_wait _raw_write_lock_irq"),
    ("network stack", f"{SYSCALL} __x64_sys_sendto __sys_sendto sock_sendmsg udp_sendmsg"),
    ("other kernel", f"{THREAD} worker_thread process_one_work ext4_end_io_rsv_work"),
    ("unclassified", f"{THREAD} worker_thread process_one_work nobodys_work"),
    ("unclassified", "_raw_spin_lock"),
)


def stack(kernel: str, thread: str = "napi/veth0-8") -> SampledStack:
    return SampledStack("vr1", 1, thread, tuple(kernel.split()), ("main", "read"), 1)


@pytest.mark.parametrize(("category", "chain"), CHAINS)
def test_chains_of_the_kernel(category: str, chain: str) -> None:
    assert shipped_table().classify(stack(chain)) == category


@pytest.mark.parametrize(
    ("thread", "category"),
    [
        ("CPU 0/KVM", "guest"),
        ("CPU 11/TCG", "guest"),
        ("qemu-system-x86", "guest"),
        ("linux.uml", "guest"),
        ("linux", "user"),
        ("isolane", "user"),
        ("", "user"),
    ],
)
def test_user_space_is_the_guests_or_a_programs(thread: str, category: str) -> None:
    table = shipped_table()
    assert table.classify(stack("", thread)) == category
    # What a guest has the kernel do is not the guest's.
    assert table.classify(stack(READ, thread)) is Category.SYSTEM_CALLS


@pytest.mark.parametrize(
    ("chain", "inherits"),
    [
        (FORWARD, False),
        (f"{FORWARD} _raw_spin_lock", False),
        (f"{FORWARD} not_named", True),
        (f"{FORWARD} not_named _raw_spin_lock", True),
        ("_raw_spin_lock", False),
        ("", False),
    ],
)
def test_what_the_table_does_not_name_inherits(chain: str, inherits: bool) -> None:
    assert shipped_table().inherits(stack(chain)) == inherits


def test_along_a_chain_each_function_has_its_category() -> None:
    found = list(shipped_table().along(("kthread", "net_rx_action", "_raw_spin_lock", "br_x")))
    assert found == ["unclassified", "network stack", "network stack", "bridge and virtual switch"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("veth_xdp_rcv.constprop.0", "veth_xdp_rcv"),
        ("finish_task_switch.isra.0.cold", "finish_task_switch"),
        ("do_softirq.part.0", "do_softirq"),
        ("f.llvm.1234", "f"),
        ("f.cold", "f"),
        ("colder", "colder"),
        (".cold", ""),
    ],
)
def test_suffixes_of_compilers_are_cut_off(name: str, found: str) -> None:
    assert bare(name) == found


def recorded() -> set[str]:
    lines = Path(__file__).with_name("test_kernel_names.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


def test_the_kernel_has_what_the_table_names() -> None:
    names = recorded()

    def there(pattern: str) -> bool:
        if pattern.endswith("*"):
            return any(name.startswith(pattern[:-1]) for name in names)
        return pattern in names

    for category, rules in shipped_table().rules.items():
        assert [one for one in (*rules.functions, *rules.called_by) if not there(one)] == []
        assert [one for one in rules.elsewhere if there(one)] == [], f"{category}: it has these"
        assert all(rules.elsewhere.values()), f"{category}: each has a reason"


def test_nothing_is_recorded_that_the_table_does_not_name() -> None:
    table = shipped_table()
    named = {one for rules in table.rules.values() for one in rules.called_by}
    others = recorded() - named - set(table.names)
    assert {one for one in others if not one.startswith(tuple(table.prefixes))} == set()


def test_each_category_that_functions_decide_has_rules() -> None:
    by_other_means = {Category.USER, Category.UNCLASSIFIED}
    names = {one.name.lower() for one in set(Category) - by_other_means}
    assert set(shipped_table().rules) == names | {"neutral"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: 1\ncategories: {nic: {functions: [a]}}", "nic: there is no such category"),
        ("version: 1\ncategories: {user: {functions: [a]}}", "user: there is no such category"),
        ("version: 1\ncategories: {bpf: {function: [a]}}", "categories.bpf.function"),
        ("categories: {}", "version"),
        ("version: 1\ncategories: {bpf: {functions: [a, a]}}", "bpf: a: is in the table twice"),
        (
            "version: 1\ncategories: {bpf: {functions: [a*]}, driver: {elsewhere: {a*: why}}}",
            "driver: a*: is in the table twice",
        ),
        ("version: 1\ncategories: {neutral: {called_by: [a]}}", "only a category can have it"),
        ("version: [", "while parsing"),
    ],
)
def test_a_wrong_table_is_refused(text: str, told: str) -> None:
    with pytest.raises(SpecError) as error:
        read_table(text, "mine.yaml")
    assert str(error.value).startswith("mine.yaml: ")
    assert told in str(error.value)


def test_the_longer_rule_wins_and_a_whole_name_over_all() -> None:
    rules = "bpf: {functions: [a*]}, driver: {functions: [ab*]}, memory: {functions: [abc]}"
    table = read_table(f"version: 7\ncategories: {{{rules}}}", "mine.yaml")
    assert table.version == 7
    found = [next(iter(table.along((name,)))) for name in ("a", "ab", "abc", "abcd", "b")]
    assert found == ["BPF", "driver", "memory", "driver", "unclassified"]
