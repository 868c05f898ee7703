#!/bin/sh
# A SLURM of one node on this machine, for tests: `one-node.sh install`, `one-node.sh start DIR`, `one-node.sh stop DIR`.
# It needs root and Debian's packages (`install` fetches them). All of its files, sockets and keys are in DIR.
set -eu

install() {
    export DEBIAN_FRONTEND=noninteractive
    # The daemons are started by hand, below.
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    apt-get update --quiet --quiet
    apt-get install --quiet --quiet --yes --no-install-recommends slurmctld slurmd slurm-client munge
}

start() {
    dir=$(mkdir -p "$1" && cd "$1" && pwd)
    mkdir -p "$dir/state" "$dir/spool" "$dir/munge"
    chmod 755 "$dir" "$dir/munge"
    [ -e "$dir/munge/key" ] || { head -c 1024 /dev/urandom > "$dir/munge/key" && chmod 600 "$dir/munge/key"; }
    munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munged.pid" \
        --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" 2> "$dir/munge/complaints"
    host=$(hostname -s)
    cat > "$dir/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
SlurmctldPort=${SLURM_PORT:-16817}
SlurmdPort=${SLURMD_PORT:-16818}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=20
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=60 State=UP OverSubscribe=FORCE:4
CONF
    export SLURM_CONF="$dir/slurm.conf"
    slurmctld -f "$SLURM_CONF"
    slurmd -f "$SLURM_CONF"
    for _ in $(seq 60); do
        if sinfo --noheader --format %T 2> /dev/null | grep -q idle; then
            echo "$SLURM_CONF"
            exit 0
        fi
        scontrol update NodeName="$host" State=RESUME > /dev/null 2>&1 || true
        sleep 0.5
    done
    echo "the node did not become idle; see $dir/slurmctld.log and $dir/slurmd.log" >&2
    exit 1
}

stop() {
    dir=$(cd "$1" && pwd)
    for name in slurmd slurmctld munged; do
        if [ -s "$dir/$name.pid" ]; then
            kill "$(cat "$dir/$name.pid")" 2> /dev/null || true
        fi
    done
}

"$@"
