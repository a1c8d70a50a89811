-- Simba's tables and functions, version 1. They may stand in any schema of the user's search path, beside other tables.
--
-- Every call of the library is one statement, `select * from simba_..(..)`, and so one transaction. What each does:
--
-- 1. The own session's row is locked. Only then is the clock read: a statement that has waited for a lock still holds
--    the instant at which it began, and would renew a session that has been taken over meanwhile.
-- 2. A session that is over is deleted, by whoever finds it so, in the same transaction in which its leases are given
--    away. It never comes back: a lease whose session has no row is free.
-- 3. A foreign session is first judged by a plain read. If it seems to be over, its row is locked, unless somebody else
--    has it (its owner, who renews it; another taker), and is judged again by the clock of that moment.
--
-- Nobody waits for a foreign session or for a lease: what is locked by another transaction counts as held. So there is
-- no circle of waits. The one wait left is for the own session, and for a name that another transaction makes just now.

create table simba_meta (
    key   text primary key,
    value text not null
);

-- One row a session. Half of each page is left free, so that a renewal stays within its page and touches no index.
create table simba_session (
    id         uuid primary key,
    expires_us bigint not null,                     -- the server's clock, microseconds since 1970
    renewed_us bigint not null,
    lease_us   bigint not null,
    version    bigint not null default 0,           -- how often the session's set of leases has changed
    node       text not null,
    host       text not null,
    pid        bigint not null,
    client     text not null
) with (fillfactor = 50);

-- One row a name. Rows are never deleted, so that a token is never handed out twice.
create table simba_lease (
    name        text collate "C" primary key,       -- compared byte for byte; "namespace/name" in a namespace
    token       bigint not null check (token > 0),
    session     uuid,
    acquired_us bigint not null
);

create index simba_lease_session on simba_lease (session) where session is not null;

-- The one clock.
create function simba_now() returns bigint language plpgsql volatile as $$
begin
    return extract(epoch from clock_timestamp()) * 1000000;
end $$;

create function simba_version() returns int language sql immutable as $$ select 1 $$;

-- How each call begins: no wait is longer than the caller waits, what is answered is on the disk, and the versions of
-- sessions are counted by the call itself, not once more by the triggers.
create function simba_begin(p_limit_ms int) returns text language plpgsql as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'leases need transactions that are read committed, and this user''s are %',
            current_setting('transaction_isolation') using errcode = 'SB001';
    end if;
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    -- To plan each statement anew for its arrays costs more than to run it.
    return set_config('lock_timeout', p_limit_ms::text, true) || set_config('simba.counted', 'on', true)
        || set_config('plan_cache_mode', 'force_generic_plan', true);
end $$;

-- Tells those who wait. An empty name stands for more than are worth listing.
create function simba_tell(p_names text[]) returns void language plpgsql as $$
begin
    if cardinality(p_names) > 64 then
        perform pg_notify('simba_freed', '');
    else
        perform pg_notify('simba_freed', name) from unnest(p_names) as name;
    end if;
end $$;

-- Deletes a session whose row is locked. Every lease of it is free from then on, though their rows still name it.
create function simba_end(p_session uuid, p_tell boolean) returns void language plpgsql as $$
begin
    delete from simba_session where id = p_session;
    if p_tell then
        perform simba_tell(array(select name from simba_lease where session = p_session limit 65));
    end if;
end $$;

-- Locks the own session, and judges it then. Null: it is over.
create function simba_live(p_session uuid, p_tell boolean) returns simba_session language plpgsql as $$
declare
    own simba_session;
begin
    select * into own from simba_session where id = p_session for update;
    if own.expires_us <= simba_now() then
        perform simba_end(p_session, p_tell);
        return null;
    end if;
    return own;
end $$;

create function simba_open(
    p_session uuid, p_lease_us bigint, p_node text, p_host text, p_pid bigint, p_client text, p_limit_ms int
) returns void language plpgsql as $$
declare
    instant bigint;
    begun text := simba_begin(p_limit_ms);
begin
    instant := simba_now();
    -- Sessions whose owners have died are cleared away, some at a time.
    delete from simba_session where id in (
        select id from simba_session where expires_us <= instant limit 16 for update skip locked
    );
    insert into simba_session (id, expires_us, renewed_us, lease_us, node, host, pid, client)
    values (p_session, instant + p_lease_us, instant, p_lease_us, p_node, p_host, p_pid, p_client);
end $$;

-- The lease time, the version, and the list unless the caller knows it. No row: the session is over.
create function simba_keep_alive(p_session uuid, p_known bigint, p_tell boolean, p_limit_ms int)
returns table (lease_us bigint, version bigint, names text[], tokens bigint[]) language plpgsql as $$
declare
    begun text := simba_begin(p_limit_ms);
    own simba_session := simba_live(p_session, p_tell);
    instant bigint;
begin
    if own.id is null then
        return;
    end if;
    instant := simba_now();
    update simba_session set expires_us = instant + own.lease_us, renewed_us = instant where id = p_session;
    lease_us := own.lease_us;
    version := own.version;
    if p_known is distinct from own.version then
        select coalesce(array_agg(l.name), '{}'), coalesce(array_agg(l.token), '{}') into names, tokens
        from simba_lease l where l.session = p_session;
    end if;
    return next;
end $$;

-- One row: the versions, and for each name, in the order given, its token (null if that cannot be told) and the number
-- of its holder: 0 for the caller, null if unknown, else the place in the lists of holders.
create function simba_acquire(p_session uuid, p_names text[], p_tell boolean, p_limit_ms int)
returns table (
    before bigint, after bigint, tokens bigint[], holders bigint[],
    nodes text[], hosts text[], pids bigint[], clients text[], left_us bigint[]
) language plpgsql as $$
declare
    begun text := simba_begin(p_limit_ms);
    own simba_session := simba_live(p_session, p_tell);
    instant bigint;
    won bigint := 0;
    taken bigint;
    wanted text[];
    owned boolean;
    dead uuid[];
    ended uuid;
begin
    if own.id is null then
        return;
    end if;
    before := own.version;

    -- Names that nobody has had yet. Two callers who make the same ones meet in the order of the names.
    if exists (select from unnest(p_names) as g (name) where not exists (select from simba_lease l where l.name = g.name))
    then
        insert into simba_lease (name, token, session, acquired_us)
        select given.name, 1, p_session, simba_now()
        from (select distinct unnest(p_names) collate "C" as name) as given
        where not exists (select from simba_lease l where l.name = given.name)
        order by given.name
        on conflict do nothing;
        get diagnostics won = row_count;
    end if;

    -- What seems to be free is locked, and what is then still to be had is taken.
    instant := simba_now();
    select array_agg(f.name), bool_or(f.session is not null) into wanted, owned from (
        select l.name, l.session from simba_lease l left join simba_session s on s.id = l.session
        where l.name = any(p_names) and l.session is distinct from p_session
            and (s.id is null or s.expires_us <= instant)
        order by l.name for update of l skip locked
    ) f;
    if owned then
        dead := array(
            select s.id from simba_session s
            where s.id in (select l.session from simba_lease l where l.name = any(wanted))
                and s.id <> p_session and s.expires_us <= instant
            order by s.id for update skip locked
        );
        instant := simba_now();
        for ended in select s.id from simba_session s where s.id = any(dead) and s.expires_us <= instant loop
            perform simba_end(ended, p_tell);
        end loop;
    end if;
    if wanted is not null then
        update simba_lease l set token = l.token + 1, session = p_session, acquired_us = instant
        where l.name = any(wanted) and l.token < 9223372036854775807
            and not exists (select from simba_session s where s.id = l.session);
        get diagnostics taken = row_count;
        won := won + taken;
    end if;
    after := before + won;
    if won > 0 then
        update simba_session set version = after where id = p_session;
    end if;

    -- The waits are over: a session that has run out meanwhile is granted nothing.
    instant := simba_now();
    if own.expires_us <= instant then
        raise exception 'the session ran out while this call waited' using errcode = 'SB002';
    end if;
    select array_agg(l.token order by g.place), array_agg(case when l.session = p_session then 0 end order by g.place)
    into tokens, holders
    from unnest(p_names) with ordinality as g (name, place) join simba_lease l on l.name = g.name;
    if array_position(holders, null) is null then
        return next;
        return;
    end if;
    with found as (
        select g.place, l.token, l.session, s.id as holder, s.node, s.host, s.pid, s.client,
            least(s.lease_us, greatest(s.expires_us - instant, 0)) as remaining
        from unnest(p_names) with ordinality as g (name, place)
        join simba_lease l on l.name = g.name
        left join simba_session s on s.id = l.session
    ), holding as (
        select f.holder, row_number() over (order by f.holder) as number, f.node, f.host, f.pid, f.client, f.remaining
        from (
            select distinct on (holder) * from found where holder is not null and holder <> p_session order by holder
        ) f
    )
    select
        (select array_agg(f.token order by f.place) from found f),
        (select array_agg(case when f.session = p_session then 0 else h.number end order by f.place)
            from found f left join holding h on h.holder = f.holder),
        array_agg(h.node order by h.number), array_agg(h.host order by h.number), array_agg(h.pid order by h.number),
        array_agg(h.client order by h.number), array_agg(h.remaining order by h.number)
    into tokens, holders, nodes, hosts, pids, clients, left_us
    from holding h;
    return next;
end $$;

-- The versions before and after. No row: the session is over.
create function simba_release(p_session uuid, p_names text[], p_tokens bigint[], p_tell boolean, p_limit_ms int)
returns table (before bigint, after bigint) language plpgsql as $$
declare
    begun text := simba_begin(p_limit_ms);
    own simba_session := simba_live(p_session, p_tell);
    freed text[];
begin
    if own.id is null then
        return;
    end if;
    freed := array(
        select l.name from simba_lease l
        -- Not by `=`: the index of sessions is full of entries of leases that were given back, those of names are few.
        where l.name = any(p_names) and l.session is not distinct from p_session
            and (l.name, l.token) in (select * from unnest(p_names, p_tokens))
        order by l.name for update
    );
    before := own.version;
    after := before;
    if cardinality(freed) > 0 then
        update simba_lease l set session = null where l.name = any(freed);
        after := before + cardinality(freed);
        update simba_session set version = after where id = p_session;
        if p_tell then
            perform simba_tell(freed);
        end if;
    end if;
    return next;
end $$;

-- Ends a session; whether it was alive.
create function simba_close(p_session uuid, p_tell boolean, p_limit_ms int) returns boolean language plpgsql as $$
declare
    begun text := simba_begin(p_limit_ms);
    own simba_session := simba_live(p_session, p_tell);
begin
    if own.id is null then
        return false;
    end if;
    perform simba_end(p_session, p_tell);
    return true;
end $$;

-- The token that the lease carries then, and whether it was freed. No row: nobody holds it.
create function simba_force_release(p_name text, p_token bigint, p_tell boolean, p_limit_ms int)
returns table (token bigint, freed boolean) language plpgsql as $$
declare
    begun text := simba_begin(p_limit_ms);
    holder uuid;
    lease simba_lease;
begin
    loop
        select l.session into holder from simba_lease l where l.name = p_name;
        -- The session first, as everybody does.
        perform from simba_session s where s.id = holder for update;
        select * into lease from simba_lease l where l.name = p_name for update;
        exit when lease.session is not distinct from holder;
    end loop;
    if lease.session is null then
        return;
    end if;
    token := lease.token;
    freed := lease.token = p_token;
    if freed then
        -- The last token there is cannot be raised; nobody gets the lease any more.
        token := least(lease.token, 9223372036854775806) + 1;
        update simba_lease l set session = null, token = simba_force_release.token where l.name = p_name;
        update simba_session s set version = s.version + 1 where s.id = holder;
        if p_tell then
            perform simba_tell(array[p_name]);
        end if;
    end if;
    return next;
end $$;

-- Changes that a person makes at psql are counted too: the version of a session rises with each lease that becomes its
-- own or ceases to be.
create function simba_count() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        update simba_session s set version = s.version + c.changes
        from (select session, count(*) as changes from added where session is not null group by session) c
        where s.id = c.session;
    elsif tg_op = 'DELETE' then
        update simba_session s set version = s.version + c.changes
        from (select session, count(*) as changes from gone where session is not null group by session) c
        where s.id = c.session;
    else
        update simba_session s set version = s.version + c.changes
        from (
            select session, count(*) as changes from (
                (select name, session, token from added except select name, session, token from gone)
                union all
                (select name, session, token from gone except select name, session, token from added)
            ) changed
            where session is not null group by session
        ) c
        where s.id = c.session;
    end if;
    return null;
end $$;

create trigger simba_lease_insert after insert on simba_lease
referencing new table as added for each statement
when (current_setting('simba.counted', true) is distinct from 'on') execute function simba_count();

create trigger simba_lease_update after update on simba_lease
referencing new table as added old table as gone for each statement
when (current_setting('simba.counted', true) is distinct from 'on') execute function simba_count();

create trigger simba_lease_delete after delete on simba_lease
referencing old table as gone for each statement
when (current_setting('simba.counted', true) is distinct from 'on') execute function simba_count();

insert into simba_meta (key, value) values ('schema', '1');
